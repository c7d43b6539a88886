#include "decision/workers.h"

#include <algorithm>

namespace ccld::decision {

void Workers::Job::take_part() {
  for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
       i = next.fetch_add(1, std::memory_order_relaxed))
    work(i);
}

Workers::Workers(size_t threads) {
  for (size_t i = 1; i < threads; ++i) helpers_.emplace_back([this] { help(); });
}

Workers::~Workers() {
  ends_ = true;
  ++calls_;
  calls_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Workers::run(size_t count, size_t count_min, Work work) {
  Job job{work, count};
  if (helpers_.empty() || count < std::max<size_t>(2, count_min)) return job.take_part();
  job_ = &job;
  ++calls_;
  calls_.notify_all();
  job.take_part();
  // From here on nobody begins; who has begun is waited for.
  job_ = nullptr;
  for (size_t helping = helping_; helping != 0; helping = helping_) helping_.wait(helping);
}

void Workers::help() {
  for (uint32_t seen = 0; !ends_; calls_.wait(seen)) {
    seen = calls_;
    ++helping_;
    if (Job* const job = job_) job->take_part();
    if (--helping_ == 0) helping_.notify_one();
  }
}

}  // namespace ccld::decision
