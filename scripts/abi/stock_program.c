/* Built with the stock release's header and library, run with the library that shall stand in for it. Prints the file that was
 * loaded and the release it is. Status 1 and one line when something is not as the header says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "nccl.h"

static int fails(const char* what, ncclResult_t result) {
  fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(result));
  return 1;
}

int main(void) {
  Dl_info info;
  int version = 0;
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclResult_t result = ncclGetVersion(&version);
  if (!dladdr((void*)ncclGetVersion, &info)) return fails("dladdr", ncclSystemError);
  printf("%s\n%d\n", info.dli_fname, version);
  if (result != ncclSuccess) return fails("ncclGetVersion", result);
  if (version < NCCL_VERSION_CODE) {
    fprintf(stderr, "release %d is older than the stock one, %d\n", version, NCCL_VERSION_CODE);
    return 1;
  }
  if (strcmp(ncclGetErrorString(ncclInvalidUsage), ncclGetErrorString(ncclSuccess)) == 0) return fails("ncclGetErrorString", ncclInvalidUsage);
  memset(&id, 0, sizeof id);
  if ((result = ncclGetUniqueId(&id)) != ncclSuccess) return fails("ncclGetUniqueId", result);
  /* An invalid call ends in an error code, with a config of the stock release's size; without a driver CUDA refuses first. */
  ncclComm_t comm = NULL;
  result = ncclCommInitRankConfig(&comm, 0, id, 0, &config);
  if ((result != ncclInvalidArgument && result != ncclUnhandledCudaError) || comm != NULL)
    return fails("ncclCommInitRankConfig of no ranks", result);
  if (ncclGroupStart() != ncclSuccess || ncclGroupEnd() != ncclSuccess) return fails("an empty group", ncclInternalError);
  return 0;
}
