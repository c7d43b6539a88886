#include "decision/validate/device/gpu_hardware.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "decision/validate/device/gemm.h"
#include "decision/validate/device/log_file.h"
#include "decision/validate/device/sizes.h"
#include "decision/validate/device/turn.h"
#include "decision/validate/nccl_log.h"
#include "schemas/abi/validation_library.h"

namespace ccld::decision::validate {
namespace {

using Clock = std::chrono::steady_clock;

// How often a stream is asked. Times are those of its events: this delays the answer only.
constexpr auto ask_again = std::chrono::microseconds(200);
// Of one kernel: it takes microseconds, and a second on a machine that has no processor to spare.
constexpr auto launch_ends_within = std::chrono::seconds(1);

class HardwareError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class Hung : public HardwareError {
 public:
  using HardwareError::HardwareError;
};

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw HardwareError(absl::StrCat(what, ": ", cudaGetErrorString(result)));
}

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw HardwareError(absl::StrCat(what, ": ", ncclGetErrorString(result), " (", ncclGetLastError(nullptr), ")"));
}
#define CCLD_CHECK(call) check((call), #call)

class Buffer {
 public:
  enum class Where { device, host };
  Buffer(size_t bytes, Where where) : where_(where) {
    if (where == Where::device)
      CCLD_CHECK(cudaMalloc(&address_, bytes));
    else
      CCLD_CHECK(cudaHostAlloc(&address_, bytes, cudaHostAllocDefault));
  }
  ~Buffer() { where_ == Where::device ? cudaFree(address_) : cudaFreeHost(address_); }
  Buffer(const Buffer&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(address_);
  }

 private:
  Where where_;
  void* address_ = nullptr;
};

// Instants of a stream.
class Events {
 public:
  explicit Events(size_t count) : events_(count) {
    for (cudaEvent_t& event : events_) CCLD_CHECK(cudaEventCreate(&event));
  }
  ~Events() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Events(const Events&) = delete;
  void record(size_t i, cudaStream_t stream) { CCLD_CHECK(cudaEventRecord(events_[i], stream)); }
  // Between neighbours.
  std::vector<double> milliseconds() const {
    std::vector<double> out;
    for (size_t i = 1; i < events_.size(); ++i) {
      float ms = 0;
      CCLD_CHECK(cudaEventElapsedTime(&ms, events_[i - 1], events_[i]));
      out.push_back(ms);
    }
    return out;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

std::string host_name() {
  // As NCCL: who sets it wants ranks of one machine to look like several.
  if (const char* id = getenv("NCCL_HOSTID"); id != nullptr && *id != 0) return id;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class GpuHardware : public Hardware {
 public:
  GpuHardware(const HardwareOptions& options, int device, Sizes sizes, bool cpu_device)
      : timeout_s_(options.timeout_s),
        device_(device),
        sizes_(sizes),
        cpu_device_(cpu_device),
        in_job_(options.in_job) {
    if (!in_job_) log_.emplace();
    CCLD_CHECK(cudaSetDevice(device_));
    CCLD_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }

  // A process of its own ends without tidying up (main.cc).
  ~GpuHardware() override {
    if (!in_job_) return;
    abort_in_job();
    cudaStreamDestroy(stream_);
  }

  Member member(int rank) const override {
    Member m;
    m.rank = rank;
    m.host = host_name();
    m.pid = static_cast<uint32_t>(getpid());
    m.gpu = device_;
    char bus_id[32] = {};
    if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device_) == cudaSuccess) m.bus_id = bus_id;
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device_) == cudaSuccess) m.model = properties.name;
    m.cpu_device = cpu_device_;
    return m;
  }

  absl::StatusOr<std::string> unique_id() override {
    ncclUniqueId id;
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) return absl::UnavailableError(ncclGetLastError(nullptr));
    return absl::BytesToHexString(absl::string_view(id.internal, sizeof id.internal));
  }

  Answer perform(const Step& step, int rank, int ranks) override {
    Answer answer;
    answer.rank = rank;
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s_));
    if (in_job_) end_ = std::min<Clock::time_point>(end_, in_job_->until());
    try {
      CCLD_CHECK(cudaSetDevice(device_));
      switch (step.kind) {
        case StepKind::connect: connect(step, rank, ranks, answer); break;
        case StepKind::gpu_check: check_gpu(step, answer); break;
        case StepKind::pass: test_links(step, answer); break;
        default: break;  // no step of the hardware
      }
      give_back_buffers();
    } catch (const std::runtime_error& e) {
      answer.error = e.what();
      // Kernels may still wait for other ranks, and CUDA would wait for them to give memory back. In a job they are
      // ended; a process of its own leaves its memory to the driver, since even an abort may wait for a broken GPU.
      abort_in_job();
      in_job_ ? give_back_buffers() : leave_buffers();
    }
    if (log_) log_->text();  // shows what is new
    return answer;
  }

 private:
  void abort_in_job() {
    if (!in_job_ || comm_ == nullptr) return;
    let_launch_end();
    ncclCommAbort(std::exchange(comm_, nullptr));
  }

  // An abort that comes while NCCL's thread launches a kernel does not wait for that kernel, and gives the memory back
  // that it is about to read. A launch is over soon, also where this process was stopped in its middle; what waits for
  // other ranks longer than that has launched nothing.
  void let_launch_end() {
    const Clock::time_point until = Clock::now() + launch_ends_within;
    ncclResult_t state = ncclInProgress;
    while (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state == ncclInProgress && Clock::now() < until)
      std::this_thread::sleep_for(ask_again);
  }

  // Of the step: they outlive what it throws.
  const Buffer& buffer(size_t bytes, Buffer::Where where) {
    return *buffers_.emplace_back(std::make_unique<Buffer>(bytes, where));
  }
  void give_back_buffers() { buffers_.clear(); }
  void leave_buffers() {
    for (std::unique_ptr<Buffer>& left : buffers_) static_cast<void>(left.release());
    buffers_.clear();
  }

  template <class Ready>
  void wait(const Ready& ready, const char* what) {
    while (!ready()) {
      if (Clock::now() >= end_) throw Hung(absl::StrCat(what, " did not end in time"));
      std::this_thread::sleep_for(ask_again);
    }
  }

  void wait_for_comm(const char* what) {
    wait(
        [this] {
          ncclResult_t state = ncclSuccess;
          CCLD_CHECK(ncclCommGetAsyncError(comm_, &state));
          if (state != ncclSuccess && state != ncclInProgress) check(state, "NCCL");
          return state == ncclSuccess;
        },
        what);
  }

  void wait_for_stream(const char* what) {
    wait(
        [this] {
          if (comm_ != nullptr) {  // an error of the network ends no kernel
            ncclResult_t state = ncclSuccess;
            CCLD_CHECK(ncclCommGetAsyncError(comm_, &state));
            check(state, "NCCL");
          }
          const cudaError_t result = cudaStreamQuery(stream_);
          if (result == cudaErrorNotReady) return false;
          check(result, "cudaStreamQuery");
          return true;
        },
        what);
  }

  void connect(const Step& step, int rank, int ranks, Answer& answer) {
    ncclUniqueId id;
    const std::string bytes = absl::HexStringToBytes(step.id);
    if (bytes.size() != sizeof id.internal) throw HardwareError("rank 0's unique id is of another version of NCCL");
    bytes.copy(id.internal, sizeof id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = abi::validation_comm_name;
    rank_ = rank;
    CCLD_CHECK(ncclCommInitRankConfig(&comm_, ranks, id, rank, &config));
    wait_for_comm("communicator initialization");
    if (in_job_) {
      answer.channels = in_job_->channels;
      return;
    }
    answer.channels = read_nccl_log(log_->text(), rank).channels;
  }

  // One repetition more than are counted: the first pays for what is not there yet.
  template <class Repetition>
  std::vector<double> timed(int repetitions, const char* what, const Repetition& repetition) {
    repetition();
    wait_for_stream(what);
    Events events(static_cast<size_t>(repetitions) + 1);
    events.record(0, stream_);
    for (int i = 0; i < repetitions; ++i) {
      repetition();
      events.record(static_cast<size_t>(i) + 1, stream_);
    }
    wait_for_stream(what);
    return events.milliseconds();
  }

  void check_gpu(const Step& step, Answer& answer) {
    const Turn turn(cpu_device_, end_);
    Sample sample;
    sample.check = step.check;
    sample.rank = rank_;
    const auto copy = [&](const Buffer& to, const Buffer& from, size_t bytes, cudaMemcpyKind kind) {
      return timed(step.repetitions, title(step.check),
                   [&] { CCLD_CHECK(cudaMemcpyAsync(to.as<void>(), from.as<void>(), bytes, kind, stream_)); });
    };
    using Where = Buffer::Where;
    switch (step.check) {
      case Check::gemm: sample.ms = multiply(step.repetitions); break;
      case Check::memory: {
        const Buffer &from = buffer(sizes_.memory_bytes, Where::device),
                     &to = buffer(sizes_.memory_bytes, Where::device);
        sample.bytes = 2.0 * static_cast<double>(sizes_.memory_bytes);  // read and written
        sample.ms = copy(to, from, sizes_.memory_bytes, cudaMemcpyDeviceToDevice);
        break;
      }
      case Check::host_to_device:
      case Check::device_to_host: {
        const Buffer &host = buffer(sizes_.copy_bytes, Where::host), &device = buffer(sizes_.copy_bytes, Where::device);
        const bool up = step.check == Check::host_to_device;
        sample.bytes = static_cast<double>(sizes_.copy_bytes);
        sample.ms = up ? copy(device, host, sizes_.copy_bytes, cudaMemcpyHostToDevice)
                       : copy(host, device, sizes_.copy_bytes, cudaMemcpyDeviceToHost);
        break;
      }
      case Check::link: throw HardwareError("a link is no check of a GPU");
    }
    answer.samples.push_back(std::move(sample));
  }

  std::vector<double> multiply(int repetitions) {
    const auto n = static_cast<size_t>(sizes_.gemm_n);
    const auto matrix = [&]() -> const Buffer& { return buffer(n * n * sizeof(float), Buffer::Where::device); };
    const Buffer &a = matrix(), &b = matrix(), &c = matrix();
    // 0x3f3f3f3f is 0.75: no numbers so small that processors take another way.
    for (const Buffer* factor : {&a, &b})
      CCLD_CHECK(cudaMemsetAsync(factor->as<void>(), 0x3f, n * n * sizeof(float), stream_));
    return timed(repetitions, title(Check::gemm),
                 [&] { CCLD_CHECK(launch_gemm(a.as<float>(), b.as<float>(), c.as<float>(), sizes_.gemm_n, stream_)); });
  }

  void test_links(const Step& step, Answer& answer) {
    for (const Pair& pair : step.pairs) {
      if (pair.from != rank_ && pair.to != rank_) continue;
      const Buffer& message = buffer(sizes_.link_bytes, Buffer::Where::device);
      CCLD_CHECK(cudaMemsetAsync(message.as<void>(), 0, sizes_.link_bytes, stream_));
      test_link(pair.from, pair.to, step.repetitions, message, answer);
      if (pair.back) test_link(pair.to, pair.from, step.repetitions, message, answer);
      give_back_buffers();
    }
  }

  // A repetition is a message and the receiver's answer of a byte, by the sender's clock: a receiver that is late only
  // adds time. Without the answer, buffers on the way would make what is sent look faster than the link is.
  void test_link(int from, int to, int repetitions, const Buffer& message, Answer& answer) {
    Sample sample;
    sample.check = Check::link;
    sample.rank = from;
    sample.peer = to;
    sample.bytes = static_cast<double>(sizes_.link_bytes);
    const bool sends = from == rank_;
    const int peer = sends ? to : from;
    const Turn turn(cpu_device_ && !sends, end_);  // the sender's first repetition waits for it
    const Clock::time_point begun = Clock::now();
    const auto move = [&](bool send, size_t bytes) {
      CCLD_CHECK(ncclGroupStart());
      CCLD_CHECK(send ? ncclSend(message.as<void>(), bytes, ncclUint8, peer, comm_, stream_)
                      : ncclRecv(message.as<void>(), bytes, ncclUint8, peer, comm_, stream_));
      CCLD_CHECK(ncclGroupEnd());
      wait_for_comm("connecting");
    };
    try {
      std::vector<double> ms = timed(repetitions, "link", [&] {
        move(sends, sizes_.link_bytes);
        move(!sends, 1);
      });
      if (!sends) return;
      sample.ms = std::move(ms);
    } catch (const Hung&) {
      // In a job it only says that the time to hold was over. And on the CPU device a receiver may have had its turn
      // for the end of the timeout only: it says nothing of the link.
      const auto waited_s = std::chrono::duration<double>(Clock::now() - begun).count();
      if (!in_job_ && waited_s > timeout_s_ / 2) answer.hung.emplace_back(from, to);
      throw;
    }
    add_path(sample);
    answer.samples.push_back(std::move(sample));
  }

  void add_path(Sample& sample) {
    if (!log_) return;
    const NcclLog log = read_nccl_log(log_->text(), rank_);
    const auto path = log.sends_to.find(sample.peer);
    if (path == log.sends_to.end()) return;
    sample.kind = path->second.kind;
    const auto net = log.net_names.find(path->second.net_device);
    if (net != log.net_names.end())
      sample.net = net->second;
    else if (path->second.net_device >= 0)
      sample.net = absl::StrCat(path->second.net_device);
  }

  const double timeout_s_;
  const int device_;
  const Sizes sizes_;
  const bool cpu_device_;  // then ranks of a machine measure in turns
  const std::optional<InJob> in_job_;
  std::optional<LogFile> log_;  // none in a training process
  std::vector<std::unique_ptr<Buffer>> buffers_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  int rank_ = 0;
  Clock::time_point end_;
};

bool on_cpu_device() { return dlsym(RTLD_DEFAULT, "ccld_cpu_device_busy") != nullptr; }

}  // namespace

int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

absl::StatusOr<std::unique_ptr<Hardware>> open_gpu(const HardwareOptions& options) {
  const int count = gpu_count();
  if (count == 0) return absl::NotFoundError("there is no GPU here that CUDA can use");
  if (options.gpu >= count)
    return absl::NotFoundError(absl::StrCat("--gpu ", options.gpu, ": there are only ", count, " GPUs"));
  const bool cpu_device = on_cpu_device();
  Sizes sizes = cpu_device ? cpu_device_sizes : gpu_sizes;
  if (options.in_job) sizes = cpu_device ? cpu_device_in_job_sizes : gpu_in_job_sizes;
  if (options.link_bytes != 0) sizes.link_bytes = options.link_bytes;
  try {
    return std::make_unique<GpuHardware>(options, options.gpu >= 0 ? options.gpu : options.local_rank % count, sizes,
                                         cpu_device);
  } catch (const HardwareError& e) {
    return absl::UnavailableError(e.what());
  }
}

}  // namespace ccld::decision::validate
