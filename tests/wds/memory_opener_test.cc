// The Openers of this room and its tests in the conformance suite of ByteSource.
#include "tests/wds/memory_opener.h"

#include <gtest/gtest.h>

#include "tests/support/byte_source_conformance.h"
#include "wds/hashing_opener.h"

namespace millrace::testing {
namespace {

/// A HashingOpener and the opener that it reads through.
class Hashing final : public io::Opener {
 public:
  explicit Hashing(const std::string& content) { files.files["a.tar"] = content; }
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override {
    return hashing.open(url, options);
  }

  MemoryOpener files;
  wds::HashingOpener hashing{files};
};

std::unique_ptr<SourceObject> hashing_object(const std::string& content) {
  return std::make_unique<OpenerObject<Hashing>>(std::make_shared<Hashing>(content), "a.tar");
}

template <std::size_t kStep, bool kKnowsSize>
std::unique_ptr<SourceObject> memory_object(const std::string& content) {
  auto opener = std::make_shared<MemoryOpener>();
  opener->files["a.tar"] = content;
  opener->step = kStep;
  opener->knows_size = kKnowsSize;
  return std::make_unique<OpenerObject<MemoryOpener>>(std::move(opener), "a.tar");
}

INSTANTIATE_TEST_SUITE_P(Wds, ByteSourceConformance,
                         ::testing::Values(SourceKind{"Memory", memory_object<(1 << 20), true>},
                                           SourceKind{"MemoryBySteps", memory_object<7'001, false>},
                                           SourceKind{"Hashing", hashing_object}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace millrace::testing
