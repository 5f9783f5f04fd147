#include "decode/detail/npy_header.h"

#include <charconv>
#include <string>

#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 64 << 10;
constexpr std::size_t kMaxAxes = 32;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;

Error corrupt_npy(const char* what) { return {ErrorCode::kCorrupt, std::string("npy: ") + what}; }

// The few Python literals that such a dictionary contains.
class Literals {
 public:
  explicit Literals(std::string_view text) : text_(text) {}

  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) throw corrupt_npy("its header is not the expected dictionary");
  }

  std::string_view string() {
    skip_space();
    const char quote = text_.empty() ? '\0' : text_.front();
    if (quote != '\'' && quote != '"') {
      // A list of fields, most likely.
      throw Error(ErrorCode::kUnsupported, "npy: structured values");
    }
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) throw corrupt_npy("its header has an open string");
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    throw corrupt_npy("its header lacks a True or False");
  }

  std::int64_t integer() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) throw corrupt_npy("its shape is not one of counts");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

 private:
  void skip_space() {
    const std::size_t begin = text_.find_first_not_of(" \n\t");
    text_.remove_prefix(begin == std::string_view::npos ? text_.size() : begin);
  }

  std::string_view text_;
};

std::vector<std::int64_t> read_shape(Literals& literals) {
  std::vector<std::int64_t> shape;
  literals.expect('(');
  while (!literals.accept(')')) {
    if (shape.size() == kMaxAxes) throw corrupt_npy("more than 32 axes");
    shape.push_back(literals.integer());
    if (!literals.accept(',')) {
      literals.expect(')');
      break;
    }
  }
  return shape;
}

// "<f4": byte order, kind, bytes.
void read_type(std::string_view descr, NpyArray& array) {
  if (descr.size() < 2) throw corrupt_npy("its type has no name");
  const char order = descr[0];
  array.kind = descr[1];
  const std::string_view size = descr.substr(2);
  const bool known = size == "1" || size == "2" || size == "4" || size == "8";
  if (std::string_view("biuf").find(array.kind) == std::string_view::npos || !known ||
      (array.kind == 'f' && size == "1") || (array.kind == 'b' && size != "1")) {
    throw Error(ErrorCode::kUnsupported,
                array.kind == 'O' ? "npy: pickled objects"
                                  : "npy: values of type " + std::string(descr.substr(0, 16)));
  }
  array.item_size = static_cast<std::size_t>(size[0] - '0');
  array.big_endian = order == '>';
  if (std::string_view("<>|=").find(order) == std::string_view::npos) {
    throw corrupt_npy("its type has no byte order");
  }
}

// The product must not overflow, whatever the shape claims; an empty axis makes the array empty.
void check_extent(const NpyArray& array) {
  std::int64_t bytes = static_cast<std::int64_t>(array.item_size);
  for (const std::int64_t extent : array.shape) {
    if (extent > 0 && bytes > kMaxBytes / extent) throw corrupt_npy("its shape is too large");
    bytes *= extent > 0 ? extent : 1;
  }
}

NpyArray read_dictionary(std::string_view text) {
  Literals literals(text);
  NpyArray array;
  int seen = 0;
  literals.expect('{');
  while (!literals.accept('}')) {
    const std::string_view key = literals.string();
    literals.expect(':');
    if (key == "descr") {
      read_type(literals.string(), array);
      seen |= 1;
    } else if (key == "fortran_order") {
      array.fortran_order = literals.boolean();
      seen |= 2;
    } else if (key == "shape") {
      array.shape = read_shape(literals);
      seen |= 4;
    } else {
      throw corrupt_npy("its header has an unknown key");
    }
    if (!literals.accept(',')) {
      literals.expect('}');
      break;
    }
  }
  if (seen != 7) throw corrupt_npy("its header lacks a key");
  check_extent(array);
  return array;
}

}  // namespace

NpyArray read_npy_header(std::string_view file, std::size_t& offset) {
  if (!file.starts_with(kMagic)) throw corrupt_npy("it does not begin with its magic");
  if (file.size() < 12) throw Error(ErrorCode::kTruncated, "npy: its header is cut");
  const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(file[i])}; };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) throw Error(ErrorCode::kUnsupported, "npy of an unknown version");
  const std::size_t length = version == 1
                                 ? byte(8) | byte(9) << 8
                                 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  const std::size_t begin = version == 1 ? 10 : 12;
  if (length > kMaxHeader) throw corrupt_npy("its header is too long");
  if (file.size() - begin < length) throw Error(ErrorCode::kTruncated, "npy: its header is cut");
  offset = begin + length;
  return read_dictionary(file.substr(begin, length));
}

}  // namespace millrace::decode::detail
