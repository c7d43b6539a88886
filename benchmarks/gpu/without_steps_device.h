// Takes the calls that count steps out of NCCL's device code. Behind ccld_hooks_device.h, before NCCL's primitives.
#pragma once

#define ccld_lane_opens(...) ((void)0)
#define ccld_lane_posts(...) ((void)0)
#define ccld_lane_posts_ll(...) ((void)0)
#define ccld_lane_closes(...) ((void)0)
#define ccld_lane_closes_ll(...) ((void)0)
#define ccld_pat_lane_opens(...) ((void)0)
#define ccld_pat_lane_posts(...) ((void)0)
