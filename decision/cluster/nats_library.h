// The functions of NATS' C client that are used. It is loaded when a cluster is asked for: a service without one does
// not need it. Types and constants come from <nats/nats.h>; nothing is linked.
#pragma once

#include <memory>
#include <string>

#include <nats/nats.h>

#include "absl/status/statusor.h"

namespace ccld::decision::cluster {

// clang-format off
#define CCLD_NATS_FUNCTIONS(f) \
  f(natsOptions_Create) \
  f(natsOptions_Destroy) \
  f(natsOptions_SetServers) \
  f(natsOptions_SetName) \
  f(natsOptions_SetTimeout) \
  f(natsOptions_SetNoEcho) \
  f(natsOptions_SetCustomInboxPrefix) \
  f(natsOptions_SetMaxReconnect) \
  f(natsOptions_SetCustomReconnectDelay) \
  f(natsOptions_SetPingInterval) \
  f(natsOptions_SetMaxPingsOut) \
  f(natsOptions_SetRetryOnFailedConnect) \
  f(natsOptions_SetSecure) \
  f(natsOptions_LoadCATrustedCertificates) \
  f(natsOptions_LoadCertificatesChain) \
  f(natsOptions_SetUserCredentialsFromFiles) \
  f(natsOptions_SetErrorHandler) \
  f(natsOptions_SetWriteDeadline) \
  f(natsConnection_Connect) \
  f(natsConnection_Close) \
  f(natsConnection_GetLastError) \
  f(natsConnection_GetMaxPayload) \
  f(natsConnection_Destroy) \
  f(natsConnection_Publish) \
  f(natsConnection_Subscribe) \
  f(natsConnection_JetStream) \
  f(natsOptions_SetDisconnectedCB) \
  f(natsOptions_SetClosedCB) \
  f(natsOptions_SetReconnectedCB) \
  f(natsSubscription_Destroy) \
  f(natsSubscription_SetPendingLimits) \
  f(natsSubscription_SetOnCompleteCB) \
  f(natsMsg_GetSubject) \
  f(natsMsg_GetData) \
  f(natsMsg_GetDataLength) \
  f(natsMsg_GetSequence) \
  f(natsMsg_Destroy) \
  f(natsStatus_GetText) \
  f(nats_GetLastError) \
  f(jsCtx_Destroy) \
  f(jsOptions_Init) \
  f(jsPubOptions_Init) \
  f(jsStreamConfig_Init) \
  f(jsStreamInfo_Destroy) \
  f(jsPubAck_Destroy) \
  f(js_AddStream) \
  f(js_GetStreamInfo) \
  f(js_GetMsg) \
  f(js_GetLastMsg) \
  f(js_DeleteMsg) \
  f(js_Publish)
// clang-format on

struct NatsLibrary {
#define CCLD_NATS_POINTER(name) decltype(&::name) name = nullptr;
  CCLD_NATS_FUNCTIONS(CCLD_NATS_POINTER)
#undef CCLD_NATS_POINTER
};

// Errors: Unavailable: it is not installed, or lacks a function. It stays loaded.
absl::StatusOr<const NatsLibrary*> load_nats();

}  // namespace ccld::decision::cluster
