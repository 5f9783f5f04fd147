#include "tools/create/cifar_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/local_file.h"
#include "tools/create/file_identities.h"
#include "tools/create/image_file.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;
constexpr std::size_t kPlane = std::size_t{kSide} * kSide;
constexpr std::size_t kPixels = 3 * kPlane;
constexpr std::size_t kMaxCifarBytes = std::size_t{4} << 30;

/// One of the two sets: the part of a record before its pixels.
struct CifarLayout {
  std::string_view set;
  std::size_t labels;  ///< bytes before the pixels, the class last
  int classes;
  int coarse_classes;           ///< 0: no such label
  std::string_view names_file;  ///< of the class names, one per line

  std::size_t record_bytes() const { return labels + kPixels; }
};

constexpr CifarLayout kCifar10 = {"CIFAR-10", 1, 10, 0, "batches.meta.txt"};
constexpr CifarLayout kCifar100 = {"CIFAR-100", 2, 100, 20, "fine_label_names.txt"};

int label_at(const io::Bytes& file, std::size_t offset) {
  return std::to_integer<int>(file.span()[offset]);
}

/// The offset of the first record that is not of this set; the file's size if all are.
std::size_t first_bad_record(const io::Bytes& file, const CifarLayout& layout) {
  for (std::size_t at = 0; at < file.size(); at += layout.record_bytes()) {
    const bool coarse = layout.coarse_classes == 0 || label_at(file, at) < layout.coarse_classes;
    if (!coarse || label_at(file, at + layout.labels - 1) >= layout.classes) return at;
  }
  return file.size();
}

bool fits(const io::Bytes& file, const CifarLayout& layout) {
  return file.size() > 0 && file.size() % layout.record_bytes() == 0;
}

/// Which set the file belongs to, by its size; if that is ambiguous, by its labels.
const CifarLayout& layout_of(const io::Bytes& file, const std::string& path) {
  if (!fits(file, kCifar10) && !fits(file, kCifar100)) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} bytes are not a whole number of records of {} (CIFAR-10) or {} "
                            "(CIFAR-100) bytes: not CIFAR's binary version, or truncated",
                            file.size(), kCifar10.record_bytes(), kCifar100.record_bytes()),
                {.url = path});
  }
  if (!fits(file, kCifar100)) return kCifar10;
  const bool both = fits(file, kCifar10);
  return both && first_bad_record(file, kCifar10) == file.size() ? kCifar10 : kCifar100;
}

void check_labels(const io::Bytes& file, const std::string& path, const CifarLayout& layout) {
  const std::size_t bad = first_bad_record(file, layout);
  if (bad == file.size()) return;
  throw Error(ErrorCode::kCorrupt,
              fmt::format("record {} has a label that {} does not have",
                          bad / layout.record_bytes(), layout.set),
              {.url = path, .offset = bad});
}

std::vector<std::string> names_beside(const std::string& path, const CifarLayout& layout) {
  const fs::path file = fs::path(path).parent_path() / layout.names_file;
  if (!fs::is_regular_file(file)) return {};
  const io::Bytes text = io::read_local_file(file.string(), 1 << 20);
  std::vector<std::string> names;
  std::string_view rest = text.text();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view name = rest.substr(0, end);
    if (name.ends_with('\r')) name.remove_suffix(1);
    if (!name.empty()) names.emplace_back(name);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // A file of that name with another number of lines is not about these classes.
  return names.size() == static_cast<std::size_t>(layout.classes) ? names
                                                                  : std::vector<std::string>();
}

class CifarSource final : public SampleSource {
 public:
  explicit CifarSource(CifarOptions options) : options_(std::move(options)) {
    for (const std::string& path : options_.files) add(path);
    names_ = names_beside(options_.files.front(), *layout_);
  }

  std::uint64_t size() const override { return ends_.back(); }
  std::vector<std::string> classes() const override { return names_; }

  void identify(Sha256& into) const override {
    for (const std::string& path : options_.files) identify_file(path, into);
  }

  wds::Sample make(std::uint64_t index) const override {
    const io::Bytes record = record_at(index);
    wds::Sample sample;
    sample.key = fmt::format("{:08}", index);
    sample.fields.push_back(label("cls", record, layout_->labels - 1));
    if (layout_->coarse_classes > 0) sample.fields.push_back(label("coarse.cls", record, 0));
    sample.fields.push_back(encode_field(resized(image(record), options_.size), options_.encoding));
    return sample;
  }

 private:
  void add(const std::string& path) {
    const io::Bytes file = io::read_local_file(path, kMaxCifarBytes);
    const CifarLayout& layout = layout_of(file, path);
    if (layout_ == nullptr) layout_ = &layout;
    if (layout_ != &layout) {
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("a file of {} among those of {}", layout.set, layout_->set),
                  {.url = path});
    }
    check_labels(file, path, layout);
    files_.push_back(file);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + file.size() / layout.record_bytes());
  }

  io::Bytes record_at(std::uint64_t index) const {
    const auto file = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) -
                                               ends_.begin());
    const std::uint64_t before = file == 0 ? 0 : ends_[file - 1];
    const std::size_t bytes = layout_->record_bytes();
    return files_[file].slice((index - before) * bytes, bytes);
  }

  static wds::Field label(std::string suffix, const io::Bytes& record, std::size_t at) {
    return make_field(std::move(suffix), io::Bytes::copy_of(std::to_string(label_at(record, at))));
  }

  decode::Image image(const io::Bytes& record) const {
    const std::span<const std::byte> planes = record.span().subspan(layout_->labels);
    std::vector<std::byte> pixels(kPixels);
    for (std::size_t i = 0; i < kPixels; ++i) pixels[i] = planes[i % 3 * kPlane + i / 3];
    return {.height = kSide,
            .width = kSide,
            .channels = 3,
            .pixels = io::Bytes::take(std::move(pixels))};
  }

  CifarOptions options_;
  const CifarLayout* layout_ = nullptr;
  std::vector<io::Bytes> files_;
  std::vector<std::uint64_t> ends_;  ///< number of samples up to the end of each file
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<SampleSource> open_cifar_source(const CifarOptions& options) {
  return std::make_unique<CifarSource>(options);
}

}  // namespace millrace::tools
