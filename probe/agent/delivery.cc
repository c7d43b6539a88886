#include "probe/agent/delivery.h"

#include <iterator>

namespace ccld::probe {

void DeliveryLedger::asked(uint64_t batch_seq) {
  questions_[next_question_] = {batch_seq, refused_};
  next_question_ = (next_question_ + 1) % questions_max;
}

bool DeliveryLedger::answered(const Acknowledgement& a) {
  const auto question = std::find_if(std::begin(questions_), std::end(questions_), [&a](const Question& q) {
    return q.batch_seq != 0 && q.batch_seq == a.batch_seq;
  });
  if (question == std::end(questions_) || a.batch_seq <= answered_.batch_seq || a.batches == 0 ||
      a.batches > a.batch_seq)
    return false;
  const auto known = std::find_if(std::begin(sessions_), std::end(sessions_),
                                  [&a](const Session& s) { return s.batches != 0 && s.id == a.session; });
  const bool goes_on = known == std::begin(sessions_);
  const uint64_t batches_before = known != std::end(sessions_) ? known->batches : 0;
  if (a.batches <= batches_before) return false;
  const uint64_t came = a.batches - batches_before;
  if (came > a.batch_seq - acknowledged_) return false;

  acknowledged_ += came;
  newcomer_lacks_ = goes_on ? 0 : a.batch_seq - a.batches;
  if (goes_on) {
    const uint64_t handed_over = rest(a.batch_seq - answered_.batch_seq, question->refused - answered_.refused);
    const int64_t before = missing_;
    missing_ += static_cast<int64_t>(handed_over) - static_cast<int64_t>(came);
    lost_ = static_cast<uint64_t>(std::max({static_cast<int64_t>(lost_), std::min(before, missing_), int64_t{0}}));
  }
  const auto end = known != std::end(sessions_) ? known : std::end(sessions_) - 1;
  std::move_backward(std::begin(sessions_), end, end + 1);
  sessions_[0] = {a.session, a.batches};
  answered_ = *question;
  return true;
}

}  // namespace ccld::probe
