// SPDX-License-Identifier: Apache-2.0
//
// respond: the two ends of a request that every route shares: who is let in, and which
// headers every answer carries.
#pragma once

#include "http.h"

// False when the request is refused; the response then says why.
bool fp_request_admit(struct fp_request *request, struct fp_response *response);
// Sends the response; its body is handed over.
enum MHD_Result fp_respond(struct MHD_Connection *connection, struct fp_response *response);
