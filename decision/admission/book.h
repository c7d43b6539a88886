// What is in force of a file that may change while the service runs. Readers hold on to the version that they began
// with. Threads: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "decision/admission/key_list.h"
#include "decision/admission/token_list.h"

namespace ccld::decision::admission {

template <class Content>
class Book {
 public:
  explicit Book(std::shared_ptr<const Content> content) : newest_(std::move(content)) {}
  std::shared_ptr<const Content> newest() const {
    const std::lock_guard lock(mutex_);
    return newest_;
  }
  void replace(std::shared_ptr<const Content> content) {
    const std::lock_guard lock(mutex_);
    newest_ = std::move(content);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Content> newest_;
};

using KeyBook = Book<KeyList>;
using TokenBook = Book<TokenList>;
using SecretBook = Book<std::string>;  // a secret key of CURVE, 40 characters of Z85

}  // namespace ccld::decision::admission
