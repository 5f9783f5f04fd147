#include "pipeline/detail/arena.h"

namespace millrace::pipeline::detail {

Arena::Arena(int num_threads)
    : arena_(num_threads, static_cast<unsigned>(num_threads)), hold_(life_.defer([] {})) {
  arena_.initialize();
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { arena_.execute([this] { life_.wait(); }); });
  }
}

Arena::~Arena() noexcept {
  hold_ = {};
  threads_.clear();
  life_.wait();
}

}  // namespace millrace::pipeline::detail
