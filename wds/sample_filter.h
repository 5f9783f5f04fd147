// SampleFilter: an expression over a sample's key and small fields, which says whether it is
// wanted.
//
//   const SampleFilter filter("json.width >= 256 and json.score > 0.28 and not key matches
//   'bad/*'"); if (filter(sample)) use(sample);
//
// Values: key; a field by its suffix, as a number if it is one (cls) or else as text; a member of a
// JSON field (json.size.width, json['image/label'], meta.json.boxes[0]); numbers, 'text', true,
// false, null, and lists of these. Comparisons == != < <= > >=, `in` a list, `contains` of a text
// or list, `matches` a pattern of * ? [...]; and, or, not, parentheses. What a sample does not have
// is null, which is equal to null alone, and neither less nor more than anything.
//
// Whole numbers of 64 bits are compared exactly, with each other and with fractions. Beside a text,
// a field is the text that it is written as, white space around it apart: 007 is equal to 7 and to
// '007', not to '7'. nan and inf are texts. Numbers in JSON are never texts.
//
// Threads: const, from any.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wds/sample.h"

namespace millrace::wds {

class SampleFilter {
 public:
  /// Throws: InvalidArgument, naming the place in the expression.
  explicit SampleFilter(std::string_view expression);
  ~SampleFilter();
  SampleFilter(SampleFilter&&) noexcept;
  SampleFilter& operator=(SampleFilter&&) noexcept;

  /// The fields that it looks at.
  const std::vector<std::string>& suffixes() const;
  /// Throws: Corrupt for a field that is not JSON or text, with the url, the key, the field and its
  /// offset.
  bool operator()(const Sample& sample) const;
  /// The values that it looked for and no sample so far has had: "json.scroe".
  std::vector<std::string> unseen() const;

  struct Node;

 private:
  std::unique_ptr<const Node> root_;
  std::vector<std::string> suffixes_;
};

/// A value of a sample as the filter names it ("cls", "json.score"), for grouping and weighing.
class SampleValue {
 public:
  /// Throws: InvalidArgument for anything but one value's name.
  explicit SampleValue(std::string_view name);
  ~SampleValue();
  SampleValue(SampleValue&&) noexcept;
  SampleValue& operator=(SampleValue&&) noexcept;

  const std::string& suffix() const;
  /// As JSON writes it; "null" if the sample has none. Throws: as SampleFilter.
  std::string text(const Sample& sample) const;
  /// Throws: Corrupt, with the key, unless it is a number; as SampleFilter.
  double number(const Sample& sample) const;

 private:
  std::unique_ptr<const SampleFilter::Node> node_;
};

}  // namespace millrace::wds
