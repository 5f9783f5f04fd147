#include "tools/create/renumbered_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/label_map.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kLabel = "cls";

wds::Field* label_of(wds::Sample& sample) {
  const auto found = std::ranges::find(sample.fields, std::string(kLabel),
                                       [](const wds::Field& field) { return field.suffix; });
  return found == sample.fields.end() ? nullptr : &*found;
}

/// For each of the source's numbers the one in `names`.
std::vector<std::size_t> new_numbers(const std::vector<std::string>& own,
                                     const std::vector<std::string>& names,
                                     const std::string& names_from) {
  check_distinct(names, names_from);
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i) places.emplace(names[i], i);
  std::vector<std::size_t> numbers;
  for (const std::string& name : own) {
    const auto place = places.find(printable(name));
    if (place == places.end())
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("there is no class {}, which the samples have", printable(name)),
                  {.url = names_from});
    numbers.push_back(place->second);
  }
  return numbers;
}

class RenumberedSource final : public SampleSource {
 public:
  RenumberedSource(std::unique_ptr<SampleSource> source, std::vector<std::string> names,
                   const std::string& names_from)
      : source_(std::move(source)),
        names_(std::move(names)),
        numbers_(new_numbers(source_->classes(), names_, names_from)) {
    if (source_->size() == 0) return;  // which its user refuses
    first_ = source_->make(0);
    if (numbers_.empty() || label_of(first_) == nullptr)
      throw Error(ErrorCode::kInvalidArgument,
                  "a label map is for samples whose class has a name: these have none",
                  {.url = names_from});
  }

  std::uint64_t size() const override { return source_->size(); }
  std::vector<std::string> classes() const override { return names_; }
  std::string group(std::uint64_t index) const override { return source_->group(index); }
  void identify(Sha256& into) const override {
    source_->identify(into);
    for (const std::string& name : names_)
      into.update(std::as_bytes(std::span(std::string_view(name + "\n"))));
  }

  wds::Sample make(std::uint64_t index) const override {
    wds::Sample sample = index == 0 ? first_ : source_->make(index);
    if (wds::Field* label = label_of(sample)) {
      std::size_t number = 0;
      const std::string_view text = label->data.text();
      std::from_chars(text.data(), text.data() + text.size(), number);
      if (number >= numbers_.size())
        throw Error(ErrorCode::kCorrupt, fmt::format("class {} has no name", number),
                    {.key = sample.key});
      label->data = io::Bytes::copy_of(std::to_string(numbers_[number]));
    }
    return sample;
  }

 private:
  std::unique_ptr<SampleSource> source_;
  std::vector<std::string> names_;
  std::vector<std::size_t> numbers_;
  wds::Sample first_;  ///< the source's, which was looked at before anything is written
};

}  // namespace

std::unique_ptr<SampleSource> renumbered_source(std::unique_ptr<SampleSource> source,
                                                std::vector<std::string> names,
                                                const std::string& names_from) {
  return std::make_unique<RenumberedSource>(std::move(source), std::move(names), names_from);
}

}  // namespace millrace::tools
