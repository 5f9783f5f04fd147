#include "pipeline/detail/arena.h"

#include "pipeline/detail/sanitizer.h"

namespace millrace::pipeline::detail {

Arena::Arena(int num_threads)
    : arena_(num_threads, static_cast<unsigned>(num_threads)), hold_(life_.defer([] {})) {
  arena_.initialize();
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] {
      const TbbCode tbb;
      arena_.execute([this] { life_.wait(); });
    });
  }
}

Arena::~Arena() noexcept {
  const TbbCode tbb;
  hold_ = {};
  threads_.clear();
  life_.wait();
}

}  // namespace millrace::pipeline::detail
