// IndexesAhead: an opener that keeps the indexes of some shards between the first time that they
// are read, to count their samples, and the second, to read the shards by them: from afar each
// request takes a round trip.
//
//   auto opener = std::make_shared<IndexesAhead>(url_opener, first_shards);
//   const auto counts = sample_counts(*opener, shards);  // reads their indexes whole
//   SampleStream stream(spec, *opener, ledger);          // and has them already
//
// Threads: as Opener.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/thread_annotations.h"
#include "io/bytes.h"
#include "io/opener.h"

namespace millrace::wds {

class IndexesAhead final : public io::Opener {
 public:
  /// An index is kept if it has at most so many bytes, and all that are kept have at most so many.
  static constexpr std::size_t kMostOfOne = std::size_t{4} << 20;
  static constexpr std::size_t kMostOfAll = std::size_t{32} << 20;

  /// `shards`: those whose indexes are kept, each as often as it is there.
  IndexesAhead(std::shared_ptr<const io::Opener> opener, std::span<const std::string> shards);

  /// The first open() of such an index reads it whole, so it throws what reading throws. The next
  /// ones, as many as are kept, return that, the last of which forgets it; but if its own CRC-32
  /// differs it is not kept, since what arrived damaged is fetched again. All else is opened as
  /// usual.
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override;
  bool can_list(const std::string& url) const override;
  std::vector<io::ListedObject> list(const std::string& prefix,
                                     const io::ListOptions& options = {}) const override;
  std::unique_ptr<io::ByteSink> open_sink(const std::string& url,
                                          const io::FileSinkOptions& options = {},
                                          const std::stop_token& stop = {}) const override;
  void remove(const std::string& url, const std::stop_token& stop = {}) const override;
  void expect_digest(const std::string& url, const std::string& sha256) const override;

 private:
  struct Kept {
    std::optional<io::Bytes> index = {};  ///< once it was read
    std::size_t uses = 0;                 ///< until it is forgotten
  };
  std::optional<Kept> take(const std::string& url) const;
  std::unique_ptr<io::ByteSource> fetch(const std::string& url, const io::OpenOptions& options,
                                        std::size_t uses) const;
  void keep(const std::string& url, Kept kept) const;

  std::shared_ptr<const io::Opener> opener_;
  mutable Mutex mutex_;
  mutable std::map<std::string, Kept> kept_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::size_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::wds
