// What both halves of the plugin say of their devices.
#pragma once

#include <nccl_net.h>

namespace ccld::collnet {

// As many as CCLD_TEST_NET_DEVICES says (1): NCCL makes a head of one GPU for each.
ncclResult_t count_devices(int* count);
ncclResult_t describe_device(int device, ncclNetProperties_v11_t*);

ncclResult_t no_registration(void*, void*, size_t, int, void** handle);
ncclResult_t no_deregistration(void*, void*);

}  // namespace ccld::collnet
