// SampleAssembler: groups the members of one tar into samples; ShardReader without an index.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "wds/detail/index_check.h"
#include "wds/detail/link_resolver.h"
#include "wds/key_set.h"
#include "wds/shard_reader.h"

namespace millrace::wds::detail {

class SampleAssembler {
 public:
  /// Opens the shard at options.offset. Throws: what opening throws.
  SampleAssembler(const io::Opener& opener, std::shared_ptr<const std::string> url,
                  const ShardOptions& options);
  /// Goes on in a shard that is open: `source` is positioned at options.offset.
  SampleAssembler(const io::Opener& opener, std::shared_ptr<const std::string> url,
                  const ShardOptions& options, std::unique_ptr<io::ByteSource> source);

  /// As ShardReader::next(), except that its Errors lack the url.
  bool next(Sample& sample);
  bool can_continue() const { return !broken_; }
  std::uint64_t position() const;
  bool at_end() const { return started_ && !pending_; }
  /// Whether an earlier opening, or this one, has shown that the shard is not compressed.
  bool is_known_plain() const { return known_plain_; }
  void set_known_plain() { known_plain_ = true; }
  const std::vector<std::uint32_t>& header_crcs() const { return header_crcs_; }
  /// The members of the last sample that were skipped.
  const std::vector<PassedMember>& passed() const { return passed_; }
  const TarReader& tar() const { return *tar_; }

 private:
  /// A member that belongs to a sample, its header read and its payload not.
  struct Pending {
    TarMember member;
    std::string key;
    std::string suffix;
    /// Why the member, and so its whole sample, cannot be returned.
    std::optional<Error> fault;
  };
  static bool counts(const Pending& next);

  bool reopen_compressed();
  void start();
  void read_sample(Sample& sample);
  void advance();
  bool next_member(Pending& next);
  bool accept(Pending& next);
  void begin(Sample& sample);
  void add_field(Sample& sample);
  bool is_wanted(const std::string& suffix) const;
  void pass_over(Sample& sample);
  LinkResolver::Target payload(const Sample& sample);
  LinkResolver::Target link_target(const Sample& sample);
  void end_sample(const Sample& sample, std::uint32_t archive);
  void check_whole(const Sample& sample);
  void check_archive_end(const Sample& sample);
  std::vector<std::string> suffixes_of(const Sample& sample) const;
  [[noreturn]] void drop(Error error);

  const io::Opener& opener_;
  ShardOptions options_;
  std::shared_ptr<const std::string> url_;
  std::unique_ptr<TarReader> tar_;
  std::optional<Pending> pending_;
  std::optional<std::string> dropped_key_;  // members with this key belong to a faulty sample
  KeySet keys_;
  std::vector<std::uint32_t> header_crcs_;
  std::vector<PassedMember> passed_;
  std::vector<std::string> last_suffixes_;  // sorted; for missing or passed end markers
  std::unique_ptr<LinkResolver> links_;     // created at the first link
  bool started_ = false;
  bool skip_pending_ = false;  // it belongs to the dropped sample
  bool broken_ = false;
  bool known_plain_ = false;  // it is not compressed: its offsets are the file's
};

}  // namespace millrace::wds::detail
