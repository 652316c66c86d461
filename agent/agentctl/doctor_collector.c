// SPDX-License-Identifier: Apache-2.0
#include "doctor.h"

#include <curl/curl.h>
#include <string.h>

#define CONNECT_TIMEOUT_S 3L
#define TOTAL_TIMEOUT_S	  5L

static size_t ignore_body(char *bytes, size_t size, size_t count, void *context)
{
	return size * count;
}

static void free_curl(CURL **curl)
{
	if (*curl)
		curl_easy_cleanup(*curl);
	*curl = NULL;
}

// The status code of GET <url>/healthz, or 0 with a cause.
static long ask(const struct fp_agent_config *config, char cause[CURL_ERROR_SIZE])
{
	CURL *curl FP_CLEANUP(free_curl) = curl_easy_init();
	size_t length = strlen(config->collector_url);
	char *url FP_AUTOFREE = NULL;
	CURLcode result;
	long code = 0;

	while (length && config->collector_url[length - 1] == '/')
		length--;
	if (!curl || asprintf(&url, "%.*s/healthz", (int)length, config->collector_url) < 0) {
		url = NULL;
		strcpy(cause, "out of memory");
		return 0;
	}
	cause[0] = '\0';
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, cause);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore_body);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, TOTAL_TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (config->collector_ca_file[0])
		curl_easy_setopt(curl, CURLOPT_CAINFO, config->collector_ca_file);
	result = curl_easy_perform(curl);
	if (result == CURLE_OK)
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
	else if (!cause[0])
		snprintf(cause, CURL_ERROR_SIZE, "%s", curl_easy_strerror(result));
	return code;
}

void fp_doctor_judge_collector(struct fp_doctor *doctor, const struct fp_agent_config *config)
{
	char cause[CURL_ERROR_SIZE];
	long code;

	if (!config->collector_url[0]) {
		fp_doctor_add(doctor, "collector", FP_PREFLIGHT_WARN,
			      "set collector.url, e.g. http://collector.example:7171",
			      "no collector is configured: batches stay in the spool");
		return;
	}
	code = ask(config, cause);
	if (code == 0)
		fp_doctor_add(doctor, "collector", FP_PREFLIGHT_WARN,
			      "check collector.url and the network; batches wait in the spool",
			      "'%s' cannot be reached: %s", config->collector_url, cause);
	else if (code >= 500)
		fp_doctor_add(doctor, "collector", FP_PREFLIGHT_WARN,
			      "see the collector's log; batches wait in the spool",
			      "'%s' answers, but says %ld of its own health", config->collector_url,
			      code);
	else
		fp_doctor_add(doctor, "collector", FP_PREFLIGHT_PASS, "", "'%s' answers",
			      config->collector_url);
}
