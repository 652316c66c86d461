// SPDX-License-Identifier: Apache-2.0
#include "ship_http.h"
#include "ship_policy.h"

#include "common/clock.h"
#include "common/file.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define CONNECT_TIMEOUT_S     5L
#define TOTAL_TIMEOUT_S	      60L
#define LOW_SPEED_BYTES_PER_S 1024L
#define LOW_SPEED_TIME_S      20L
#define SEND_BYTES_PER_S      ((curl_off_t)1 << 20) // a fleet that comes back must not flood
#define CA_CACHE_S	      300L		    // a rotated CA counts after minutes
#define BODY_MAX	      (64u << 10)
#define HEADERS_MAX	      (32u << 10)
#define TOKEN_MAX	      4096

struct fp_ship_client {
	struct fp_ship_client_config config;
	CURL *curl;
	struct fp_ship_answer *answer; // of the running request
	size_t header_bytes;
};

void fp_ship_answer_clear(struct fp_ship_answer *answer)
{
	fp_buf_free(&answer->body);
	fp_buf_free(&answer->wanted);
	*answer = (struct fp_ship_answer){ 0 };
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
	struct fp_ship_client *client = context;
	struct fp_buf *body = &client->answer->body;

	if (body->len + size * count > BODY_MAX || fp_buf_append(body, bytes, size * count))
		return 0; // ends the transfer
	return size * count;
}

static void take_retry_after(struct fp_ship_answer *answer, const char *value, size_t size)
{
	char text[64];

	if (size >= sizeof(text))
		return;
	memcpy(text, value, size);
	text[size] = '\0';
	answer->retry_after_ns = fp_ship_retry_after_ns(text, fp_realtime_ns());
}

static void take_wanted(struct fp_ship_answer *answer, const char *value, size_t size)
{
	fp_buf_clear(&answer->wanted);
	fp_buf_append(&answer->wanted, value, size); // without memory it asks for nothing
}

static const struct header {
	const char *name;
	void (*take)(struct fp_ship_answer *answer, const char *value, size_t size);
} headers[] = {
	{ "retry-after:", take_retry_after },
	{ "x-fleetprof-wanted:", take_wanted },
};

static size_t take_header(char *line, size_t size, size_t count, void *context)
{
	struct fp_ship_client *client = context;
	size_t length = size * count;
	const char *end = line + length, *value;

	client->header_bytes += length;
	if (client->header_bytes > HEADERS_MAX)
		return 0;
	for (size_t i = 0; i < FP_ARRAY_SIZE(headers); i++) {
		size_t name_size = strlen(headers[i].name);

		if (length < name_size || strncasecmp(line, headers[i].name, name_size) != 0)
			continue;
		value = line + name_size;
		while (value < end && (*value == ' ' || *value == '\t'))
			value++;
		while (end > value && strchr(" \t\r\n", end[-1]))
			end--;
		headers[i].take(client->answer, value, (size_t)(end - value));
		break;
	}
	return length;
}

static int check_progress(void *context, curl_off_t download_total, curl_off_t downloaded,
			  curl_off_t upload_total, curl_off_t uploaded)
{
	const struct fp_ship_client *client = context;

	return client->config.should_stop && client->config.should_stop(client->config.context);
}

static void set_protocols(CURL *curl)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	curl_easy_setopt(curl, CURLOPT_CA_CACHE_TIMEOUT, CA_CACHE_S);
#endif
}

static void set_options(struct fp_ship_client *client)
{
	CURL *curl = client->curl;

	set_protocols(curl);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, TOTAL_TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, LOW_SPEED_BYTES_PER_S);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, LOW_SPEED_TIME_S);
	curl_easy_setopt(curl, CURLOPT_MAX_SEND_SPEED_LARGE, SEND_BYTES_PER_S);
	curl_easy_setopt(curl, CURLOPT_MAXCONNECTS, 2L);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "fleetprof-agent/" FP_VERSION);
	if (client->config.ca_file[0])
		curl_easy_setopt(curl, CURLOPT_CAINFO, client->config.ca_file);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, client);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, client);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, check_progress);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, client);
}

int fp_ship_client_new(const struct fp_ship_client_config *config, struct fp_ship_client **ret)
{
	FP_CLEANUP(fp_ship_client_freep) struct fp_ship_client *client = NULL;

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return -ENOMEM;
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->config = *config;
	client->curl = curl_easy_init();
	if (!client->curl)
		return -ENOMEM;
	*ret = fp_take_ptr(client);
	return 0;
}

void fp_ship_client_free(struct fp_ship_client *client)
{
	if (!client)
		return;
	if (client->curl)
		curl_easy_cleanup(client->curl);
	free(client);
}

static void free_list(struct curl_slist **list)
{
	curl_slist_free_all(*list);
}

static int append_header(struct curl_slist **list, const char *header)
{
	struct curl_slist *longer = curl_slist_append(*list, header);

	if (!longer)
		return -ENOMEM;
	*list = longer;
	return 0;
}

// The first line of the token file as an Authorization header. A file that everybody can
// read holds no secret: refused, so that it is noticed.
static int append_token(const struct fp_ship_client *client, struct curl_slist **list)
{
	FP_AUTOBUF struct fp_buf token = { 0 }, header = { 0 };
	const char *file = client->config.token_file;
	struct stat info;
	int error;

	if (!file[0])
		return 0;
	if (stat(file, &info) < 0)
		return -errno;
	if (info.st_mode & S_IROTH)
		return -EPERM;
	error = fp_file_read(file, TOKEN_MAX, &token);
	if (error)
		return error;
	while (token.len && token.data[token.len - 1] <= ' ')
		token.len--;
	for (size_t i = 0; i < token.len; i++)
		if (token.data[i] < ' ' || token.data[i] > '~')
			return -EINVAL; // would break out of the header line
	if (!token.len)
		return -EINVAL;
	fp_buf_str(&header, "Authorization: Bearer ");
	fp_buf_append(&header, token.data, token.len);
	fp_buf_byte(&header, 0);
	return header.error ? header.error : append_header(list, (const char *)header.data);
}

static int make_url(const struct fp_ship_client *client, const char *path, struct fp_buf *url)
{
	fp_buf_str(url, client->config.base_url);
	while (url->len && url->data[url->len - 1] == '/')
		url->len--;
	return fp_buf_str(url, path);
}

static void set_method(CURL *curl, const struct fp_ship_request *request)
{
	if (strcmp(request->method, "HEAD") == 0) {
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
		return;
	}
	curl_easy_setopt(curl, CURLOPT_POST, 1L);
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
}

// An answer whose body was cut off or too long still has its status, but a 2xx that cannot
// be read is no success.
static void perform(struct fp_ship_client *client, struct fp_ship_answer *answer)
{
	CURLcode code = curl_easy_perform(client->curl);

	curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &answer->status);
	if (code == CURLE_OK)
		return;
	if (answer->status < 300)
		answer->status = 0;
	if (!answer->error[0])
		snprintf(answer->error, sizeof(answer->error), "%s", curl_easy_strerror(code));
}

int fp_ship_client_send(struct fp_ship_client *client, const struct fp_ship_request *request,
			struct fp_ship_answer *ret)
{
	FP_CLEANUP(free_list) struct curl_slist *list = NULL;
	FP_AUTOBUF struct fp_buf url = { 0 };
	int error = make_url(client, request->path, &url);

	for (size_t i = 0; !error && i < FP_ARRAY_SIZE(request->headers) && request->headers[i];
	     i++)
		error = append_header(&list, request->headers[i]);
	if (!error)
		error = append_token(client, &list);
	if (error)
		return error;
	curl_easy_reset(client->curl); // keeps the connection, forgets the last request
	set_options(client);
	set_method(client->curl, request);
	*ret = (struct fp_ship_answer){ 0 };
	client->answer = ret;
	client->header_bytes = 0;
	curl_easy_setopt(client->curl, CURLOPT_URL, (const char *)url.data);
	curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, ret->error);
	perform(client, ret);
	curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, NULL);
	client->answer = NULL;
	return 0;
}
