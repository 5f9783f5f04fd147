#include "tools/create/recoded_source.h"

#include <utility>

namespace millrace::tools {
namespace {

class RecodedSource final : public SampleSource {
 public:
  RecodedSource(std::unique_ptr<SampleSource> source, JpegRecoding& jpeg)
      : source_(std::move(source)), jpeg_(jpeg) {}

  std::uint64_t size() const override { return source_->size(); }
  void identify(Sha256& into) const override { source_->identify(into); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  std::string group(std::uint64_t index) const override { return source_->group(index); }

  wds::Sample make(std::uint64_t index) const override {
    wds::Sample sample = source_->make(index);
    for (wds::Field& field : sample.fields) field.data = jpeg_.recoded(field.suffix, field.data);
    return sample;
  }

 private:
  std::unique_ptr<SampleSource> source_;
  JpegRecoding& jpeg_;
};

}  // namespace

std::unique_ptr<SampleSource> recoded_source(std::unique_ptr<SampleSource> source,
                                             JpegRecoding& jpeg) {
  return std::make_unique<RecodedSource>(std::move(source), jpeg);
}

}  // namespace millrace::tools
