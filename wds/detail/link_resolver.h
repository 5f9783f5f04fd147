// LinkResolver: resolves the hard links of one tar.
//
// A link contains only a name, and nothing of earlier members is kept while a shard is read. So the
// first link makes a second reader scan the headers before it; each target is then read again from
// its offset. In a compressed tar that means reading from the beginning.
//
// Buffers: 16 bytes per member and the last target's payload. Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "io/opener.h"
#include "wds/tar_reader.h"

namespace millrace::wds::detail {

class LinkResolver {
 public:
  struct Target {
    io::Bytes data;
    std::uint64_t offset = 0;  ///< of the payload
  };

  /// `opener` is borrowed.
  LinkResolver(const io::Opener& opener, std::string url, const TarOptions& options,
               std::stop_token stop);
  ~LinkResolver();

  /// The target of the hard link `link`: the last file of that name before it. Throws: Corrupt
  /// (there is none), Unsupported (a stream cannot be read twice), Exhausted (links made it read
  /// far more than the shard holds), and as reading does.
  Target resolve(const TarMember& link);

 private:
  void scan_to(std::uint64_t offset);
  void note(const TarMember& member);
  std::unique_ptr<TarReader> open_at(std::uint64_t offset) const;
  void spend(std::uint64_t bytes, std::uint64_t seen);
  Target read(const TarMember& link, std::uint64_t offset);

  const io::Opener& opener_;
  const std::string url_;
  TarOptions options_;
  const std::stop_token stop_;
  std::unique_ptr<TarReader> scan_;
  std::optional<TarMember> ahead_;  // the first member after the last link
  // Hash of a name → offset of the header of the last member of that name.
  std::unordered_map<std::uint64_t, std::uint64_t> headers_;
  std::uint64_t spent_ = 0;
  std::optional<std::uint64_t> last_header_;
  Target last_;
};

}  // namespace millrace::wds::detail
