// Lets NCCL's device code write no row of a kernel: what still looks for the frame stores nothing. Before
// ccld_hooks_device.h.
#pragma once

#include "probe/device/frame_writer_device.h"

namespace ccld::device {
template <class... Arguments>
CCLD_DEVICE void no_row(Arguments...) {}
}  // namespace ccld::device

#define round_begins no_row
#define round_replays no_row
#define round_ends no_row
