// What NATS' client hands out, given back. Threads: as its owner.
#pragma once

namespace ccld::decision::cluster {

template <class T>
class Owned {
 public:
  explicit Owned(void (*destroy)(T*)) : destroy_(destroy) {}
  ~Owned() {
    if (value_ != nullptr) destroy_(value_);
  }
  Owned(const Owned&) = delete;
  T** out() { return &value_; }
  T* get() const { return value_; }
  T* operator->() const { return value_; }

 private:
  T* value_ = nullptr;
  void (*destroy_)(T*);
};

}  // namespace ccld::decision::cluster
