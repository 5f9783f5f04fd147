#include "trainer/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "tests/support/temp_dir.h"

namespace millrace::trainer {
namespace {

class MemorySink final : public io::ByteSink {
 public:
  void write(std::span<const std::byte> data) override {
    content.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void finish() override {}
  std::uint64_t position() const override { return content.size(); }
  std::string content;
};

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\1');
}

Safetensors parse(const std::string& file) { return parse_safetensors(io::Bytes::copy_of(file)); }

std::string two_tensors() {
  const std::vector<float> a{1.0F, -2.5F, 3.0F};
  const std::vector<std::uint16_t> b{0x3F80, 0xC000};
  MemorySink sink;
  const std::vector<TensorView> views{
      {"a", TensorType::kFloat32, {3}, std::as_bytes(std::span(a))},
      {"b", TensorType::kBFloat16, {2, 1}, std::as_bytes(std::span(b))}};
  write_safetensors(sink, views, {{"format", "pt"}});
  return sink.content;
}

TEST(Safetensors, IsReadAsItWasWritten) {
  const Safetensors file = parse(two_tensors());
  std::vector<float> a(3);
  std::vector<float> b(2);
  file.at("a").copy_to(a);
  file.at("b").copy_to(b);
  EXPECT_EQ((std::vector<float>{1.0F, -2.5F, 3.0F}), a);
  EXPECT_EQ((std::vector<float>{1.0F, -2.0F}), b);
  EXPECT_EQ((std::vector<std::int64_t>{2, 1}), file.at("b").shape);
  EXPECT_EQ("pt", file.metadata.at("format"));
  EXPECT_THROW(file.at("c"), Error);
}

TEST(Safetensors, AlignsItsData) {
  const std::string file = two_tensors();
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  EXPECT_EQ(0U, (8 + length) % 64);
}

TEST(Safetensors, ConvertsHalfPrecision) {
  std::string file = file_of(R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})", 8);
  const std::vector<std::uint16_t> halves{0x3C00, 0xC000, 0x0001, 0x7C00};
  std::memcpy(file.data() + file.size() - 8, halves.data(), 8);
  std::vector<float> values(4);
  parse(file).at("h").copy_to(values);
  EXPECT_EQ(1.0F, values[0]);
  EXPECT_EQ(-2.0F, values[1]);
  EXPECT_EQ(0x1.0p-24F, values[2]);
  EXPECT_TRUE(std::isinf(values[3]));
}

struct Hostile {
  const char* name;
  std::string file;
};

class HostileSafetensors : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileSafetensors, IsRefused) { EXPECT_THROW(parse(GetParam().file), Error); }

std::string deep() {
  return std::string(R"({"a":{"dtype":"F32","shape":)") + std::string(2000, '[') +
         std::string(2000, ']') + R"(,"data_offsets":[0,4]}})";
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileSafetensors,
    ::testing::Values(
        Hostile{"Empty", ""}, Hostile{"NoHeader", "1234567"},
        Hostile{"HugeHeader", std::string(8, '\xFF') + "{}"},
        Hostile{"HeaderPastTheEnd", std::string("\x10\0\0\0\0\0\0\0", 8) + "{}"},
        Hostile{"NotJson", file_of("{", 0)}, Hostile{"NotAnObject", file_of("[]", 0)},
        Hostile{"Duplicate", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                     R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                     4)},
        Hostile{"Hole", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)},
        Hostile{"TrailingBytes",
                file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8)},
        Hostile{"Overlap", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                   R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                   12)},
        Hostile{"PastTheEnd",
                file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4)},
        Hostile{"Backwards",
                file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4)},
        Hostile{"ShapeOverflow", file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387905,4],)"
                                         R"("data_offsets":[0,16]}})",
                                         16)},
        Hostile{"NegativeDimension",
                file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)},
        Hostile{"WrongSize",
                file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)},
        Hostile{"UnknownType",
                file_of(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4)},
        Hostile{"FloatOffsets",
                file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", 4)},
        Hostile{"MissingShape", file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4)},
        Hostile{"DeepNesting", file_of(deep(), 4)},
        Hostile{"BadMetadata", file_of(R"({"__metadata__":{"a":1}})", 0)}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Safetensors, RepeatsNoLongNames) {
  const std::string name(100'000, 'x');
  for (const std::string& header :
       {R"({")" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":")" + name + R"(","shape":[1],"data_offsets":[0,4]}})"}) {
    try {
      parse(file_of(header, 4));
      FAIL() << "parsed";
    } catch (const Error& error) {
      EXPECT_LT(error.message().size(), 1000U);
    }
  }
}

TEST(Safetensors, RefusesEveryTruncationAndSurvivesEveryFlip) {
  const std::string whole = two_tensors();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(parse(whole.substr(0, length)), Error) << length;
  }
  KeyedRng rng({.seed = 3});
  for (int i = 0; i < 5000; ++i) {
    std::string flipped = whole;
    flipped[rng.below(flipped.size())] ^= static_cast<char>(1U << rng.below(8));
    try {
      parse(flipped);
    } catch (const Error&) {  // either is fine; a crash or another exception is not
    }
  }
}

}  // namespace
}  // namespace millrace::trainer
