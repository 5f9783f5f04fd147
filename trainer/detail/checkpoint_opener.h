// The opener through which checkpoints and weights are read.
#pragma once

#include <memory>

#include "io/opener.h"

namespace millrace::trainer::detail {

/// The user's opener, or one that ends with the run's stop. `Options`: TrainOptions, EvalOptions.
template <typename Options>
std::shared_ptr<const io::Opener> checkpoint_opener(const Options& options) {
  if (options.opener) return options.opener;
  return std::make_shared<io::UrlOpener>(io::UrlOpenerOptions{.stop = options.stop});
}

}  // namespace millrace::trainer::detail
