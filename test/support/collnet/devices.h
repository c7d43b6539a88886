// What both halves of the plugin say of their devices, and do with them alike.
#pragma once

#include <nccl_net.h>

namespace ccld::collnet {

// As many as CCLD_TEST_NET_DEVICES says (1): NCCL makes a head of one GPU for each.
ncclResult_t count_devices(int* count);
ncclResult_t describe_device(int device, ncclNetProperties_v11_t*);

// `handle` is an Address, `listener` a Listener.
ncclResult_t listen(void* context, int device, void* handle, void** listener);
ncclResult_t close_listener(void* listener);

ncclResult_t no_registration(void*, void*, size_t, int, void** handle);
ncclResult_t no_deregistration(void*, void*);
ncclResult_t finish(void*);

}  // namespace ccld::collnet
