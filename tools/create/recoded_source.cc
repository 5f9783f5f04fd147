#include "tools/create/recoded_source.h"

#include <utility>

namespace millrace::tools {
namespace {

class RecodedSource final : public SampleSource {
 public:
  RecodedSource(std::unique_ptr<SampleSource> source, PictureRecoding& pictures)
      : source_(std::move(source)), pictures_(pictures) {}

  std::uint64_t size() const override { return source_->size(); }
  void identify(Sha256& into) const override { source_->identify(into); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  std::string group(std::uint64_t index) const override { return source_->group(index); }

  wds::Sample make(std::uint64_t index) const override {
    wds::Sample sample = source_->make(index);
    pictures_.recode(sample.key, sample.fields);
    return sample;
  }

 private:
  std::unique_ptr<SampleSource> source_;
  PictureRecoding& pictures_;
};

}  // namespace

std::unique_ptr<SampleSource> recoded_source(std::unique_ptr<SampleSource> source,
                                             PictureRecoding& pictures) {
  return std::make_unique<RecodedSource>(std::move(source), pictures);
}

}  // namespace millrace::tools
