// SPDX-License-Identifier: Apache-2.0
//
// handlers: one function per route of the table in routes.c. A handler fills the response and
// returns 0; a negative errno becomes a 500.
#pragma once

#include "http.h"

int fp_handle_batch(struct fp_request *request, struct fp_response *response);
int fp_handle_symbols_head(struct fp_request *request, struct fp_response *response);
int fp_handle_symbols_put(struct fp_request *request, struct fp_response *response);
int fp_handle_query(struct fp_request *request, struct fp_response *response);
int fp_handle_quality(struct fp_request *request, struct fp_response *response);
int fp_handle_builds(struct fp_request *request, struct fp_response *response);
int fp_handle_labels(struct fp_request *request, struct fp_response *response);
int fp_handle_label_values(struct fp_request *request, struct fp_response *response);
int fp_handle_hosts(struct fp_request *request, struct fp_response *response);
int fp_handle_metrics(struct fp_request *request, struct fp_response *response);
int fp_handle_health(struct fp_request *request, struct fp_response *response);
int fp_handle_ready(struct fp_request *request, struct fp_response *response);
int fp_handle_page(struct fp_request *request, struct fp_response *response);
int fp_handle_asset(struct fp_request *request, struct fp_response *response);
