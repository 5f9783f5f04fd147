// batch_fields(): what batches will hold is what they hold, and what they cannot hold is refused.
#include "pipeline/batch_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "decode/transforms/resize.h"
#include "io/base/error.h"
#include "pipeline/fake_data.h"
#include "pipeline/pipeline.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

PipelineOptions with_fields(std::vector<FieldSpec> fields) {
  PipelineOptions options;
  options.fields = std::move(fields);
  options.batch.size = 4;
  return options;
}

std::vector<std::string> texts(const std::vector<BatchField>& fields) {
  std::vector<std::string> texts;
  for (const BatchField& field : fields) {
    std::string text = field.name + " " + std::string(decode::dtype_name(field.spec.dtype));
    for (const std::int64_t side : field.spec.shape) text += " " + std::to_string(side);
    texts.push_back(text);
  }
  return texts;
}

TEST(BatchFields, AreThoseOfTheBatchesThatCome) {
  const PipelineOptions options =
      with_fake_data(with_fields({ImageField{.transforms = {decode::Resize{{6, 5}}},
                                             .dtype = decode::DType::kBFloat16,
                                             .layout = decode::Layout::kCHW},
                                  LabelField{}, FloatsField{.size = 3}}),
                     {.samples = 8, .classes = 2});
  Pipeline pipeline(options);
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_EQ(texts(batch_fields(options)), texts(batch.fields));
  EXPECT_THAT(texts(batch_fields(options)),
              ElementsAre("image bfloat16 4 3 6 5", "label int64 4", "target float32 4 3"));
}

TEST(BatchFields, HaveNoData) {
  for (const BatchField& field : batch_fields(with_fields({LabelField{}})))
    EXPECT_TRUE(field.data.empty());
}

TEST(BatchFields, LeaveOutWhatIsNoArray) {
  EXPECT_THAT(texts(batch_fields(with_fields({RawField{}, LabelField{}}))),
              ElementsAre("label int64 4"));
  EXPECT_TRUE(batch_fields(with_fields({RawField{}})).empty());
}

std::string refused(const PipelineOptions& options) {
  try {
    batch_fields(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "nothing thrown";
}

TEST(BatchFields, RefuseWhatNoBatchCanHold) {
  EXPECT_THAT(refused(with_fields({LabelField{}, LabelField{}})), HasSubstr("label"));
  EXPECT_THAT(refused(with_fields({ImageField{}})), HasSubstr("image"));
  PipelineOptions none = with_fields({LabelField{}, RawField{}});
  none.batch.size = 0;
  EXPECT_THAT(refused(none), HasSubstr("batch size 0"));
}

}  // namespace
}  // namespace millrace::pipeline
