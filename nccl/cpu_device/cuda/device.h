// The pretended GPUs: how many, which of them this process sees, and what they say about themselves.
//
// "Physical" indices count all GPUs of the machine (NVML's view), "visible" ones those left by CUDA_VISIBLE_DEVICES
// (CUDA's view). Bus ids and UUIDs belong to physical GPUs and are the same in every process.
#pragma once

#include <string>

namespace ccld::cpu_device {

constexpr int compute_capability_major = 9;  // upstream's device code is compiled for sm_90
constexpr int compute_capability_minor = 0;
constexpr int clock_mhz = 1980;

int visible_device_count();
int physical_device_count();
// -1 if there is no such visible device.
int physical_index(int visible);

// Of the calling thread, visible.
int current_device();
bool set_current_device(int visible);

std::string bus_id(int physical);
std::string uuid_text(int physical);  // "GPU-..."
// -1 if no GPU has this bus id.
int physical_index_of_bus_id(const char* bus_id);

// Value of a CUdevice_attribute / cudaDeviceAttr (they share numbers); false if the CPU device does not know it.
bool device_attribute(int attribute, int visible, int* value);

}  // namespace ccld::cpu_device
