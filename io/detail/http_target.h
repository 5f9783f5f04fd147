// HttpTarget: what a network url means to an HTTP client: the url to request, and who signs for it.
#pragma once

#include <memory>
#include <string>

#include "io/detail/signer.h"

namespace millrace::io::detail {

struct HttpTarget {
  /// The printable url.
  std::string name;
  std::string url;
  /// Null: nothing of its requests is secret.
  std::shared_ptr<Signer> signer = {};
};

}  // namespace millrace::io::detail
