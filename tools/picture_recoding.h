// PictureRecoding: what `create` and `reshard` do to pictures on --jpeg and --image, and what they
// say of it. JPEGs first become what --jpeg says; then --image says which pictures become raw.
//
//   PictureRecoding pictures;
//   pictures.declare(app);
//   pictures.settle();
//   pictures.recode(sample.key, sample.fields);
//   log.info("12 samples in 1 shard" + pictures.summary(cluster));
//
// Threads: recode() may be called from many threads at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decode/codec.h"
#include "io/bytes.h"
#include "tools/component_option.h"
#include "tools/picture_ways.h"
#include "tools/resized_partners.h"
#include "trainer/cluster.h"
#include "wds/manifest.h"

namespace CLI {
class App;
}

namespace millrace::tools {

class PictureRecoding {
 public:
  void declare(CLI::App& app);
  static std::vector<const Table*> tables() { return {&jpeg_ways(), &raw_ways()}; }
  /// Once the words are parsed. Throws: InvalidArgument.
  void settle();
  bool wanted() const { return jpeg_ != nullptr || raw_ != nullptr; }
  /// Whether JPEGs get another size.
  bool resizes() const { return jpeg_ != nullptr && jpeg_->resizes(); }
  /// The options' values, empty without: what a manifest says.
  const wds::StoredPictures& stored() const { return stored_; }

  /// The fields' data, and suffixes, as the options say. What is no picture, or cannot be stored
  /// so, stays as it is, and is counted. Throws: InvalidArgument, with the key, where a picture
  /// would no longer fit its mask or boxes; std::bad_alloc.
  template <typename Field>
  void recode(const std::string& key, std::vector<Field>& fields) {
    if (jpeg_ != nullptr) recode_jpegs(key, fields);
    for (Field& field : fields) {
      if (raw_ == nullptr) continue;
      const std::string stem = field.suffix.substr(0, field.suffix.rfind('.') + 1);
      auto raw = as_raw(key, field.suffix, field.data);
      if (raw.suffix.empty()) continue;
      if (has_suffix(fields, stem + raw.suffix)) {
        ++counts_[kTaken];
        continue;
      }
      ++counts_[kRaw];
      counts_[kRawBefore] += field.data.size();
      counts_[kRawAfter] += raw.data.size();
      field.suffix = stem + raw.suffix;
      field.data = std::move(raw.data);
    }
  }
  /// The counts of all processes, as the end of a line; empty without the options. Every process
  /// calls it.
  std::string summary(trainer::Cluster& cluster) const;

 private:
  enum Count {
    kJpegs,
    kJpegsBefore,  ///< bytes
    kJpegsAfter,
    kJpegsKept,  ///< as JpegWay::why_not() says
    kNotJpeg,
    kUnsupported,
    kDamaged,
    kRaw,
    kRawBefore,  ///< bytes
    kRawAfter,
    kNotRaw,  ///< by RawWay
    kNotStorable,
    kNotDecoded,
    kTaken,
    kNumCounts
  };

  template <typename Field>
  static bool has_suffix(const std::vector<Field>& fields, const std::string& suffix) {
    for (const Field& field : fields)
      if (field.suffix == suffix) return true;
    return false;
  }
  template <typename Field>
  void recode_jpegs(const std::string& key, std::vector<Field>& fields) {
    std::vector<ResizedField> changes;
    for (Field& field : fields) {
      io::Bytes after = as_jpeg(field.suffix, field.data);
      if (resizes())
        changes.push_back({.suffix = field.suffix, .before = field.data, .after = after});
      field.data = std::move(after);
    }
    check_partners(key, changes);
  }
  io::Bytes as_jpeg(const std::string& suffix, const io::Bytes& data);
  /// An empty suffix: it stays as it is.
  decode::EncodedImage as_raw(const std::string& key, const std::string& suffix,
                              const io::Bytes& data);

  ComponentOption jpeg_option_{"jpeg", jpeg_ways(), Choice<JpegWay>(ways::KeepJpeg())};
  ComponentOption image_option_{"image", raw_ways(), Choice<RawWay>(ways::KeepImage())};
  std::unique_ptr<JpegWay> jpeg_;
  std::unique_ptr<RawWay> raw_;
  wds::StoredPictures stored_;
  std::array<std::atomic<std::uint64_t>, kNumCounts> counts_ = {};
};

}  // namespace millrace::tools
