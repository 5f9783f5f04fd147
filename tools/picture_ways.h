// How `create` and `reshard` store pictures, as components: --jpeg 'resize(256)', --image raw.
//
//   const auto way = Choice<JpegWay>(ways::Resize{.shrink = {.shorter = 256}}).make();
//   if (const auto file = way->apply(data)) data = *file;
//
// Threads: const, from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/image.h"
#include "decode/recode.h"
#include "io/bytes.h"
#include "io/component/choice.h"

namespace millrace::tools {

/// What is done to a JPEG.
class JpegWay {
 public:
  virtual ~JpegWay() = default;
  /// nullopt: it stays as it is, and why_not() says why. Throws: as decode::shrink_jpeg().
  virtual std::optional<io::Bytes> apply(const io::Bytes& jpeg) const = 0;
  /// What was done, of several JPEGs: "re-coded with restart markers".
  virtual std::string done() const = 0;
  virtual std::string_view why_not() const { return {}; }
  /// Whether pictures get another size, which what belongs to them may not follow.
  virtual bool resizes() const { return false; }
};

/// Which pictures are stored as raw pixels.
class RawWay {
 public:
  virtual ~RawWay() = default;
  /// By the field's suffix alone.
  virtual bool is_for(const std::string& suffix) const = 0;
  virtual bool takes(std::string_view key, const decode::ImageSize& size) const = 0;
};

namespace ways {

/// As they are.
struct KeepJpeg {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<JpegWay> make() const { return nullptr; }
};

struct Restarts {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<JpegWay> make() const;
};

struct Resize {
  decode::ShrinkOptions shrink = {.shorter = 0};
  bool restarts = false;  ///< as Restarts, of the result

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<JpegWay> make() const;
};

struct KeepImage {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<RawWay> make() const { return nullptr; }
};

struct Raw {
  std::optional<std::int64_t> pixels = {};  ///< none: of any size
  double share = 1;
  std::vector<std::string> suffixes = {};  ///< empty: all without a name in front of it

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<RawWay> make() const;
};

}  // namespace ways

const TableOf<JpegWay>& jpeg_ways();
const TableOf<RawWay>& raw_ways();

}  // namespace millrace::tools
