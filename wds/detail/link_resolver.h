// LinkResolver: what the hard links of one tar lead to.
//
// A link holds a name alone, and nothing of an earlier member is kept while a shard is read. So the
// first link that is met makes a second reader go through the headers in front of it; each target
// is then read anew from where it lies. In a compressed tar that means from the beginning.
//
// Buffers: 16 bytes a member, the last target's payload. Threads: one at a time.
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

  /// The file that `link`, a hard link, leads to: the last of that name in front of it. Throws:
  /// Corrupt (there is none), Unsupported (a stream cannot be read twice), Exhausted (more was read
  /// for links than the shard can be worth), and what reading throws.
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
  std::optional<TarMember> ahead_;  // what the scan found behind the last link
  // By the hash of a name, where the header of the last member of that name lies.
  std::unordered_map<std::uint64_t, std::uint64_t> headers_;
  std::uint64_t spent_ = 0;
  std::optional<std::uint64_t> last_header_;
  Target last_;
};

}  // namespace millrace::wds::detail
