#include "wds/detail/opened_ahead.h"

#include <utility>

#include "io/base/error.h"

namespace millrace::wds::detail {

OpenedAhead::OpenedAhead(const io::Opener& opener, const std::string& url,
                         const io::OpenOptions& options)
    : opener_(opener), url_(url), options_(options) {
  try {
    source_ = opener.open(url, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    fault_ = std::current_exception();
  }
}

std::unique_ptr<io::ByteSource> OpenedAhead::open(const std::string& url,
                                                  const io::OpenOptions& options) const {
  if (url != url_) return opener_.open(url, options);
  auto ahead = std::exchange(source_, nullptr);
  const bool same = options.offset == options_.offset && options.expected == options_.expected;
  if (fault_ && same) std::rethrow_exception(std::exchange(fault_, nullptr));
  return ahead && same ? std::move(ahead) : opener_.open(url, options);
}

}  // namespace millrace::wds::detail
