#include "decode/default_decoding.h"

#include <array>
#include <utility>

#include "decode/codec.h"
#include "decode/gunzip.h"
#include "decode/json.h"
#include "decode/npz.h"
#include "decode/text.h"

namespace millrace::decode {
namespace {

constexpr std::string_view kGzip = "gz";

constexpr std::array<std::pair<std::string_view, FieldKind>, 12> kKinds = {{
    {"txt", FieldKind::kText},
    {"text", FieldKind::kText},
    {"transcript", FieldKind::kText},
    {"cls", FieldKind::kInteger},
    {"cls2", FieldKind::kInteger},
    {"index", FieldKind::kInteger},
    {"inx", FieldKind::kInteger},
    {"id", FieldKind::kInteger},
    {"json", FieldKind::kJson},
    {"jsn", FieldKind::kJson},
    {"npy", FieldKind::kArray},
    {"npz", FieldKind::kArrays},
}};

std::string_view last_component(std::string_view suffix) {
  return suffix.substr(suffix.rfind('.') + 1);  // npos + 1 is 0
}

DecodedField decode_json(const io::Bytes& field) {
  check_json(field);
  return Json{field};
}

}  // namespace

bool is_gzip_suffix(std::string_view suffix) { return last_component(suffix) == kGzip; }

FieldKind kind_of_suffix(std::string_view suffix) {
  if (is_gzip_suffix(suffix) && suffix.size() > kGzip.size()) {
    suffix.remove_suffix(kGzip.size() + 1);
  }
  const std::string_view last = last_component(suffix);
  if (standard_codecs()->of_suffix(last) != nullptr) return FieldKind::kImage;
  for (const auto& [name, kind] : kKinds) {
    if (name == last) return kind;
  }
  return FieldKind::kBytes;
}

DecodedField decode_field(std::string_view suffix, const io::Bytes& field,
                          const DecodeImageOptions& options) {
  const io::Bytes bytes = is_gzip_suffix(suffix) ? gunzip(field, options.limits) : field;
  switch (kind_of_suffix(suffix)) {
    case FieldKind::kText:
      return std::string(decode_text(bytes));
    case FieldKind::kInteger:
      return decode_integer(bytes);
    case FieldKind::kJson:
      return decode_json(bytes);
    case FieldKind::kArray:
      return parse_npy(bytes);
    case FieldKind::kArrays:
      return npz_arrays(bytes, options.limits);
    case FieldKind::kImage:
      return decode_image(bytes, options);
    case FieldKind::kBytes:
      break;
  }
  return bytes;
}

}  // namespace millrace::decode
