// For a library that is only measured: the last thread of a block adds everything up, and does not store the end in the frame.
#pragma once

#include "probe/device/frame_writer_device.h"

namespace ccld::device {
template <class... Arguments>
CCLD_DEVICE void no_row(Arguments...) {}
}  // namespace ccld::device

#define round_ends no_row
#include "nccl/hooks/ccld_hooks_device.h"
