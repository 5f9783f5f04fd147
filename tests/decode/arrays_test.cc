// npy, npz, gzip, number lists, and default decoding.
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <zlib.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>

#include "decode/default_decoding.h"
#include "decode/detail/kernels.h"
#include "decode/encode.h"
#include "decode/gunzip.h"
#include "decode/npy.h"
#include "decode/npz.h"
#include "decode/text.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/support/gzipped.h"

namespace millrace {
namespace {

using decode::DType;
using testing::fault_of;
using testing::gzipped;

io::Bytes bytes(std::string_view text) { return io::Bytes::copy_of(text); }

std::string npy(std::string_view dictionary, std::string_view data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dictionary.size() & 0xFF);
  out += static_cast<char>(dictionary.size() >> 8);
  return out + std::string(dictionary) + std::string(data);
}

TEST(Npy, ReadsTypesOrdersAndShapes) {
  const auto floats = [](std::string_view dictionary, std::string_view data,
                         std::vector<std::int64_t> shape) {
    const decode::ArraySpec spec{DType::kFloat32, std::move(shape)};
    std::vector<float> out(static_cast<std::size_t>(spec.num_values()));
    decode::copy_npy(decode::parse_npy(bytes(npy(dictionary, data))), spec,
                     std::as_writable_bytes(std::span(out)));
    return out;
  };
  using F = std::vector<float>;
  EXPECT_EQ(
      floats("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }\n", "\1\2\3\4", {2, 2}),
      (F{1, 2, 3, 4}));
  EXPECT_EQ(
      floats("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 2)}", "\1\2\xff\4", {2, 2}),
      (F{1, -1, 2, 4}));
  EXPECT_EQ(floats("{\"shape\": (1,), 'descr': '>i2', 'fortran_order': False}", "\xff\xfe", {1}),
            (F{-2}));
  EXPECT_EQ(floats("{'descr': '<f2', 'fortran_order': False, 'shape': (3,)}",
                   std::string_view("\x00\x3c\x01\x00\x00\xfc", 6), {3}),
            (F{1, 0x1p-24F, -INFINITY}));
  EXPECT_EQ(floats("{'descr': '>f8', 'fortran_order': False, 'shape': ()}",
                   std::string_view("\xc0\x08\0\0\0\0\0\0", 8), {}),
            (F{-3}));
  EXPECT_EQ(floats("{'descr': '|b1', 'fortran_order': False, 'shape': (0, 7)}", "", {0, 7}), F{});
}

TEST(Npy, RoundsToFloat16AndRefusesWhatIsBeyondIt) {
  const auto half = [](std::string_view data) {
    std::uint16_t value = 0;
    decode::copy_npy(decode::parse_npy(bytes(
                         npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", data))),
                     {DType::kFloat16, {1}}, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  };
  EXPECT_EQ(half(std::string_view("\x00\x10\x80\x3f", 4)), 0x3C00);  // 1 + 2^-11: to even
  EXPECT_EQ(half(std::string_view("\x00\x30\x80\x3f", 4)), 0x3C02);
  EXPECT_EQ(half(std::string_view("\x00\x00\x80\x7f", 4)), 0x7C00);
  EXPECT_THROW(half(std::string_view("\x00\x00\x80\x47", 4)), Error);  // 65536
}

// 1 + 2^-11 + 2^-40 is above the middle of two numbers, and its nearest float is the middle.
TEST(Npy, RoundsDoublesOnceTo16Bits) {
  const auto bits_of = [](double value, DType dtype) {
    std::string data(sizeof value, '\0');
    std::memcpy(data.data(), &value, sizeof value);
    std::uint16_t bits = 0;
    decode::copy_npy(decode::parse_npy(bytes(
                         npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", data))),
                     {dtype, {1}}, std::as_writable_bytes(std::span(&bits, 1)));
    return bits;
  };
  EXPECT_EQ(bits_of(1 + 0x1p-11 + 0x1p-40, DType::kFloat16), 0x3C01);
  EXPECT_EQ(bits_of(1 + 0x1p-11 - 0x1p-40, DType::kFloat16), 0x3C00);
  EXPECT_EQ(bits_of(-1 - 0x1p-11 - 0x1p-40, DType::kFloat16), 0xBC01);
  EXPECT_EQ(bits_of(1 + 0x1p-8 + 0x1p-40, DType::kBFloat16), 0x3F81);
  EXPECT_EQ(bits_of(1 + 0x1p-8, DType::kBFloat16), 0x3F80);
}

TEST(Float16, IsRoundedAsEigenDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = decode::from_float16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(decode::from_float16(decode::to_float16(value))));
      continue;
    }
    ASSERT_EQ(decode::to_float16(value), half);
    ASSERT_EQ(value, static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(half)));
  }
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32U; bits += 1021) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(decode::to_float16(value), Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(value)))
        << value;
  }
}

// Each vector width that this machine has, those without F16C included.
TEST(Float16, RowsAreTheSameOnEveryProcessor) {
  constexpr std::size_t kValues = 1000;
  std::vector<std::uint8_t> levels(kValues);
  for (std::size_t i = 0; i < kValues; ++i) levels[i] = static_cast<std::uint8_t>(i * 7);
  const std::int64_t all = hwy::SupportedTargets();
  for (const std::int64_t target :
       std::vector<std::int64_t>{HWY_STATIC_TARGET, HWY_AVX2, HWY_AVX3}) {
    if ((all & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    for (int exponent = -40; exponent <= 20; ++exponent) {
      decode::detail::ScalePattern pattern;
      for (std::size_t i = 0; i < decode::detail::ScalePattern::kSize; ++i) {
        pattern.scale[i] = std::ldexp(1.7F / 255, exponent);
        pattern.bias[i] = std::ldexp(-0.6F, exponent);
      }
      std::vector<float> floats(kValues);
      std::vector<std::uint16_t> halves(kValues);
      decode::detail::scale_to_float(levels.data(), kValues, pattern, floats.data());
      decode::detail::scale_to_float16(levels.data(), kValues, pattern, halves.data());
      for (std::size_t i = 0; i < kValues; ++i)
        ASSERT_EQ(halves[i], decode::to_float16(floats[i])) << floats[i] << " by " << target;
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Npy, KeepsIntegersWhole) {
  const io::Bytes file = bytes(npy("{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}",
                                   "\xff\xff\xff\xff\xff\xff\xff\x7f"));
  std::int64_t value = 0;
  const auto slot = std::as_writable_bytes(std::span(&value, 1));
  decode::copy_npy(decode::parse_npy(file), {DType::kInt64, {1}}, slot);
  EXPECT_EQ(value, INT64_MAX);
  std::byte small{};
  EXPECT_EQ(fault_of([&] {
              decode::copy_npy(decode::parse_npy(file), {DType::kUInt8, {1}}, {&small, 1});
            }),
            ErrorCode::kCorrupt);
}

TEST(Npy, RefusesHostileHeaders) {
  const auto fault = [](std::string_view dictionary, std::string_view data = "abcdefgh") {
    return fault_of([&] { decode::parse_npy(bytes(npy(dictionary, data))); });
  };
  const auto with_shape = [](const std::string& shape) {
    return "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + "}";
  };
  EXPECT_FALSE(fault(with_shape("(1,)")));
  EXPECT_EQ(fault(with_shape("(2,)")), ErrorCode::kTruncated);
  EXPECT_EQ(fault(with_shape("(4611686018427387904, 4611686018427387904)")), ErrorCode::kCorrupt);
  EXPECT_EQ(fault(with_shape("(0, 4611686018427387904, 4611686018427387904)")),
            ErrorCode::kCorrupt);
  EXPECT_EQ(fault(with_shape("(99999999999999999999,)")), ErrorCode::kCorrupt);
  EXPECT_EQ(fault(with_shape("(-1,)")), ErrorCode::kCorrupt);
  EXPECT_EQ(fault(with_shape("(1")), ErrorCode::kCorrupt);
  EXPECT_EQ(fault("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(fault("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(fault("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(fault("{'descr': '<f8', 'shape': (1,)}"), ErrorCode::kCorrupt);
  EXPECT_EQ(fault("__import__('os')"), ErrorCode::kCorrupt);
  EXPECT_EQ(fault_of([] { decode::parse_npy(bytes("\x93NUMPY\x01")); }), ErrorCode::kTruncated);
  EXPECT_EQ(fault_of([] { decode::parse_npy(bytes("hello")); }), ErrorCode::kCorrupt);
}

TEST(Npy, TheSpecsShapeIsRequired) {
  const auto array = decode::parse_npy(
      bytes(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", "abcdefgh")));
  std::vector<std::byte> slot(8);
  EXPECT_EQ(fault_of([&] {
              decode::copy_npy(array, {DType::kFloat32, {2, 1}}, slot);
            }),
            ErrorCode::kCorrupt);
}

std::string little_endian(std::size_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

// A stored member, and a directory that lists it `times` times under names of five digits.
std::string npz_listing(const std::string& member, std::size_t times) {
  const auto* data = reinterpret_cast<const Bytef*>(member.data());
  const std::string sizes = little_endian(::crc32(0, data, static_cast<uInt>(member.size())), 4) +
                            little_endian(member.size(), 4) + little_endian(member.size(), 4);
  const std::string zeros(12, '\0');
  std::string out = "PK\x03\x04" + zeros.substr(0, 10) + sizes + little_endian(5, 2) +
                    zeros.substr(0, 2) + "00000" + member;
  const std::size_t directory = out.size();
  for (std::size_t i = 0; i < times; ++i) {
    out += "PK\x01\x02" + zeros + sizes + little_endian(5, 2) + zeros + little_endian(0, 4) +
           std::to_string(10000 + i);
  }
  return out + "PK\x05\x06" + zeros.substr(0, 6) + little_endian(times, 2) + zeros.substr(0, 4) +
         little_endian(directory, 4) + zeros.substr(0, 2);
}

TEST(Npz, ManyNamesForOneMemberCostNoMoreThanTheyClaim) {
  const std::string member =
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4096,)}", std::string(4096, 'x'));
  const io::Bytes small = bytes(npz_listing(member, 3));
  EXPECT_EQ(decode::npz_arrays(small).size(), 3U);
  EXPECT_EQ(decode::npz_array(small, "10001").num_values(), 4096);
  EXPECT_EQ(fault_of([&] { decode::npz_array(small, "x"); }), ErrorCode::kNotFound);
  const io::Bytes large = bytes(npz_listing(member, 60000));
  EXPECT_EQ(fault_of([&] { decode::npz_arrays(large, {.max_unpacked_bytes = 8 << 20}); }),
            ErrorCode::kExhausted);
}

TEST(Gunzip, UnpacksSeveralMembers) {
  const std::string long_text(300000, 'x');
  EXPECT_EQ(decode::gunzip(bytes(gzipped("one ") + gzipped(long_text))).text(), "one " + long_text);
}

TEST(Gunzip, RefusesDamageAndBombs) {
  const std::string packed = gzipped("the quick brown fox");
  const auto fault = [](const std::string& text, const decode::Limits& limits = {}) {
    return fault_of([&] { decode::gunzip(bytes(text), limits); });
  };
  for (std::size_t size = 0; size < packed.size(); ++size) {
    EXPECT_EQ(fault(packed.substr(0, size)), ErrorCode::kTruncated) << size;
  }
  EXPECT_EQ(fault(packed + "garbage"), ErrorCode::kCorrupt);
  std::string wrong = packed;
  wrong[wrong.size() - 6] ^= 1;
  EXPECT_EQ(fault(wrong), ErrorCode::kCorrupt);
  EXPECT_EQ(fault(gzipped(std::string(100000, '\0')), {.max_unpacked_bytes = 99999}),
            ErrorCode::kExhausted);
  EXPECT_EQ(fault(gzipped(std::string(100 << 20, '\0'))), ErrorCode::kExhausted);
}

TEST(Numbers, AreReadBetweenSpacesAndCommas) {
  using F = std::vector<float>;
  EXPECT_EQ(decode::decode_numbers(bytes("0,1, -0.5 ;2e3\n+4\n")), (F{0, 1, -0.5F, 2000, 4}));
  EXPECT_EQ(decode::decode_numbers(bytes(" \n")), F{});
  EXPECT_EQ(decode::decode_numbers(bytes("1e-42 1e-50 -1e-400")), (F{1e-42F, 0, -0.0F}));
  for (const char* text : {"1,,2", ",1", "1,", "1 x", "1-", "+-1", "1e99", "0x1", "1 2; ;3"}) {
    EXPECT_EQ(fault_of([&] { decode::decode_numbers(bytes(text)); }), ErrorCode::kCorrupt) << text;
  }
  std::array<float, 2> slot = {};
  EXPECT_EQ(fault_of([&] { decode::decode_numbers(bytes("1 2 3"), slot); }), ErrorCode::kCorrupt);
}

TEST(DefaultDecoding, GoesByTheLastComponent) {
  using decode::FieldKind;
  using decode::kind_of_suffix;
  EXPECT_EQ(kind_of_suffix("cls"), FieldKind::kInteger);
  EXPECT_EQ(kind_of_suffix("seg.png"), FieldKind::kImage);
  EXPECT_EQ(kind_of_suffix("a.json.gz"), FieldKind::kJson);
  EXPECT_EQ(kind_of_suffix("png.txt"), FieldKind::kText);
  EXPECT_EQ(kind_of_suffix("pyd"), FieldKind::kBytes);
  EXPECT_EQ(kind_of_suffix("pickle"), FieldKind::kBytes);
  EXPECT_EQ(kind_of_suffix("gz"), FieldKind::kBytes);
  EXPECT_EQ(kind_of_suffix(""), FieldKind::kBytes);
}

TEST(DefaultDecoding, GivesEachKindItsValue) {
  using decode::decode_field;
  EXPECT_EQ(std::get<std::int64_t>(decode_field("cls", bytes("7\n"))), 7);
  EXPECT_EQ(std::get<std::string>(decode_field("txt.gz", bytes(gzipped("hi")))), "hi");
  EXPECT_EQ(std::get<io::Bytes>(decode_field("pth", bytes("x"))).text(), "x");
  const io::Bytes png = decode::encode_png(testing::photo(3, 4, 1));
  EXPECT_EQ(std::get<decode::Image>(decode_field("seg.png", png)).width, 4);
  EXPECT_EQ(std::get<decode::Json>(decode_field("json", bytes("[1]"))).text.text(), "[1]");
  EXPECT_EQ(fault_of([] { decode_field("json", bytes("[1")); }), ErrorCode::kCorrupt);
  EXPECT_EQ(fault_of([] { decode_field("txt", bytes("\xff")); }), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace millrace
