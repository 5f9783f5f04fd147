// ListedReader: reads the samples of a plain tar where its index lists them.
//
// A SampleAssembler finds out what comes next; here the index says so. So a header is only compared
// with what is listed (CRC-32, name, size), and a sample's bytes come in one read, into one
// allocation. What is not plain, or not as listed, is left to a SampleAssembler, which says what it
// is.
//
// Buffers: that of its tape, and one sample. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/byte_source.h"
#include "wds/detail/tape.h"
#include "wds/sample.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"

namespace millrace::wds::detail {

class ListedReader {
 public:
  enum class Outcome {
    kRead,
    kNotPlain,  ///< headers that only a SampleAssembler reads, or members that the index does not
                ///< list
    kDiffers,   ///< damage, of the shard or of its index
  };

  /// `source` is positioned at options.offset. Requires: options.index.
  ListedReader(std::unique_ptr<io::ByteSource> source, std::shared_ptr<const std::string> url,
               const ShardOptions& options);

  /// Whether a shard with this index can be a plain tar: its stored size is that of one.
  static bool may_read(const ShardIndex& index);

  /// Fills `sample` with the one that is listed. Any outcome but kRead is the reader's last, unless
  /// pass_over() says otherwise.
  /// Throws: as the source; std::bad_alloc.
  Outcome next(const IndexedSample& listed, Sample& sample);
  /// After kDiffers for `listed`: what differs. Then next() may be called for the sample behind it.
  /// Nullopt if the shard does not have all of the sample's bytes.
  std::optional<Error> pass_over(const IndexedSample& listed);
  std::uint64_t position() const { return tape_->position(); }
  /// The size of the shard; nullopt if the source does not know it.
  std::optional<std::uint64_t> size() const { return tape_->source().size(); }
  /// What is left of the shard, from position() on; the reader's last call.
  std::unique_ptr<io::ByteSource> rest();

 private:
  bool is_wanted(const IndexedMember& member) const;
  bool is_plain(const IndexedSample& listed);
  Outcome compare(const IndexedSample& listed, std::span<const std::byte> bytes);
  Outcome differ(const IndexedSample& listed, const IndexedMember& member, const char* what);
  Outcome copy(const IndexedSample& listed, std::size_t num_bytes, Sample& sample);
  Outcome take(const IndexedSample& listed, std::size_t num_bytes, Sample& sample);
  void begin(const IndexedSample& listed, Sample& sample) const;
  void copy_payloads(const IndexedSample& listed, std::span<const std::byte> bytes,
                     Sample& sample) const;

  std::unique_ptr<Tape> tape_;
  std::shared_ptr<const std::string> url_;
  std::vector<std::string> suffixes_;
  std::uint64_t max_member_bytes_;
  std::optional<Error> difference_;  // of the last sample
};

}  // namespace millrace::wds::detail
