#include "tools/picture_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "decode/jpeg_restarts.h"
#include "io/base/hash.h"
#include "io/base/rng.h"

namespace millrace::tools {
namespace {

constexpr int kMostSide = 65'500;
constexpr Purpose kRawShare = purpose_of("raw share");

class RestartsWay final : public JpegWay {
 public:
  std::optional<io::Bytes> apply(const io::Bytes& jpeg) const override {
    return decode::add_restarts(jpeg);
  }
  std::string done() const override { return "re-coded with restart markers"; }
};

class ResizeWay final : public JpegWay {
 public:
  explicit ResizeWay(const ways::Resize& how) : how_(how) {}

  std::optional<io::Bytes> apply(const io::Bytes& jpeg) const override {
    auto small = decode::shrink_jpeg(jpeg, how_.shrink);
    if (!how_.restarts) return small;
    return decode::add_restarts(small ? *small : jpeg);
  }
  std::string done() const override {
    return fmt::format("resized to {} px{}", how_.shrink.shorter,
                       how_.restarts ? ", with restart markers" : "");
  }
  std::string_view why_not() const override { return "not larger"; }
  bool resizes() const override { return true; }

 private:
  ways::Resize how_;
};

/// By the key, so that neither order nor threads matter.
class ShareOfPictures final : public RawWay {
 public:
  explicit ShareOfPictures(const ways::Raw& how) : how_(how) {}

  // Masks and depths (mask.png) are asked for by their whole names, which would change.
  bool is_for(const std::string& suffix) const override {
    if (how_.suffixes.empty()) return suffix.find('.') == std::string::npos;
    return std::ranges::find(how_.suffixes, suffix) != how_.suffixes.end();
  }
  bool takes(std::string_view key, const decode::ImageSize& size) const override {
    if (how_.pixels && std::int64_t{size.height} * size.width > *how_.pixels) return false;
    if (how_.share >= 1) return true;
    KeyedRng rng({.index = crc32c(std::as_bytes(std::span(key))), .purpose = kRawShare});
    return static_cast<double>(rng.uniform()) < how_.share;
  }

 private:
  ways::Raw how_;
};

}  // namespace

namespace ways {

const ComponentName KeepJpeg::kName = {"keep", "KeepJpeg", "JPEGs stay as they are"};

const ComponentName Restarts::kName = {
    "restarts", "Restarts",
    "Re-codes JPEGs without loss, with restart markers, so that a crop is decoded without the "
    "rest"};
std::unique_ptr<JpegWay> Restarts::make() const { return std::make_unique<RestartsWay>(); }

const ComponentName Resize::kName = {
    "resize", "Resize", "Decodes JPEGs, resizes them in proportion and codes them again"};
void Resize::fields(FieldList& field) {
  field("shorter", shrink.shorter, {.min = 1, .max = kMostSide, .unit = "px"},
        "What the shorter side becomes");
  field("quality", shrink.quality, {.min = 1, .max = 100}, "Of the new JPEG");
  field("only_larger", shrink.only_larger, "Leaves JPEGs as they are that are not larger");
  field("restarts", restarts, "Gives all of them restart markers, too");
}
std::unique_ptr<JpegWay> Resize::make() const { return std::make_unique<ResizeWay>(*this); }

const ComponentName KeepImage::kName = {"keep", "KeepImage", "Pictures keep their format"};

const ComponentName Raw::kName = {
    "raw", "Raw",
    "Stores pictures as 8-bit PPM and PGM, which are read without decoding, of any format that "
    "loses nothing by it"};
void Raw::fields(FieldList& field) {
  field("pixels", pixels, {.min = 1}, "Only those of at most so many pixels");
  field("share", share, {.min = 0, .max = 1}, "Of these, how many, chosen by their keys");
  field("suffixes", suffixes,
        "Fields that it is for; none: all pictures but those with a name in front (mask.png)");
}
std::unique_ptr<RawWay> Raw::make() const { return std::make_unique<ShareOfPictures>(*this); }

}  // namespace ways

const TableOf<JpegWay>& jpeg_ways() {
  static const TableOf<JpegWay> table = TableOf<JpegWay>("way to store JPEGs")
                                            .add<ways::KeepJpeg>()
                                            .add<ways::Restarts>()
                                            .add<ways::Resize>();
  return table;
}

const TableOf<RawWay>& raw_ways() {
  static const TableOf<RawWay> table =
      TableOf<RawWay>("way to store pictures").add<ways::KeepImage>().add<ways::Raw>();
  return table;
}

}  // namespace millrace::tools
