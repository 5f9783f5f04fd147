// Batches' fields as Eigen's maps: the same memory, and refused for another type or rank.
#include "decode/eigen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "io/base/error.h"
#include "pipeline/batch.h"
#include "trainer/nn/plan.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

/// A batch of 2 x 3 x 4 x 5 bf16 values 0, 1, 2, ... and two labels.
struct Made {
  std::vector<Eigen::bfloat16> pixels = std::vector<Eigen::bfloat16>(120);
  std::vector<std::int64_t> labels{7, -3};
  Batch batch;

  Made() {
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = Eigen::bfloat16(static_cast<float>(i));
    }
    batch.size = 2;
    batch.fields = {{.name = "image",
                     .spec = {.dtype = decode::DType::kBFloat16, .shape = {2, 3, 4, 5}},
                     .data = std::as_writable_bytes(std::span(pixels))},
                    {.name = "label",
                     .spec = {.dtype = decode::DType::kInt64, .shape = {2}},
                     .data = std::as_writable_bytes(std::span(labels))}};
  }
};

std::string refusal(const auto& make) {
  try {
    make();
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
    return error.message();
  }
  return "nothing was refused";
}

TEST(EigenMaps, SeeABatchsOwnMemory) {
  Made made;
  auto image = made.batch.field("image").tensor<Eigen::bfloat16, 4>();
  EXPECT_EQ(2, image.dimension(0));
  EXPECT_EQ(5, image.dimension(3));
  EXPECT_EQ(1.0F * (1 * 60 + 2 * 20 + 3 * 5 + 4), static_cast<float>(image(1, 2, 3, 4)));
  image(0, 0, 0, 1) = Eigen::bfloat16(99.0F);
  EXPECT_EQ(99.0F, static_cast<float>(made.pixels[1]));

  const auto labels = made.batch.field("label").vector<std::int64_t>();
  EXPECT_EQ(4, labels.sum());

  const auto rows = made.batch.field("image").matrix<Eigen::bfloat16>();
  EXPECT_EQ(2, rows.rows());
  EXPECT_EQ(60, rows.cols());
  EXPECT_EQ(119.0F, static_cast<float>(rows(1, 59)));
  EXPECT_EQ(2, made.batch.field("label").matrix<std::int64_t>().rows());
}

TEST(EigenMaps, RefuseAnotherTypeOrRankAndSayWhich) {
  Made made;
  const BatchField& image = made.batch.field("image");
  EXPECT_EQ("image holds bfloat16 of shape (2, 3, 4, 5); asked for as float32",
            refusal([&] { image.tensor<float, 4>(); }));
  EXPECT_EQ("image holds bfloat16 of shape (2, 3, 4, 5); asked for with 3 dimensions",
            refusal([&] { image.tensor<Eigen::bfloat16, 3>(); }));
  EXPECT_THAT(refusal([&] { image.vector<Eigen::bfloat16>(); }), HasSubstr("1 dimension"));
  EXPECT_THAT(refusal([&] { image.matrix<std::uint8_t>(); }), HasSubstr("as uint8"));
  EXPECT_THAT(refusal([&] { made.batch.field("label").tensor<float, 1>(); }),
              HasSubstr("label holds int64 of shape (2)"));
}

// The shapes of a pipeline's fields have no data behind them.
TEST(EigenMaps, RefuseAFieldWithoutData) {
  const BatchField shape{
      .name = "image", .spec = {.dtype = decode::DType::kFloat32, .shape = {8, 3}}, .data = {}};
  EXPECT_THAT(refusal([&] { shape.matrix<float>(); }), HasSubstr("0 bytes"));
}

TEST(EigenMaps, SeeAModelsOutput) {
  std::vector<float> logits{1, 2, 3, 4, 5, 6};
  const trainer::nn::OutputView output{.shape = {2, 3}, .data = logits};
  EXPECT_EQ(3.0F, output.matrix().row(0).maxCoeff());
  output.tensor<float, 2>()(1, 0) = -4.0F;
  EXPECT_EQ(-4.0F, logits[3]);
  EXPECT_THAT(refusal([&] { output.tensor<float, 4>(); }), HasSubstr("4 dimensions"));
}

}  // namespace
}  // namespace millrace::pipeline
