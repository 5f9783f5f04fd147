#include "pipeline/batch_fields.h"

#include <string>

#include "io/base/error.h"
#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/batch_mixer.h"
#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline {

std::vector<BatchField> batch_fields(const PipelineOptions& options) {
  require(options.batch.size > 0,
          "batch size " + std::to_string(options.batch.size) + ": at least 1");
  const detail::FieldDecoders decoders = detail::compile_fields(options.fields);
  const detail::BatchLayout layout(decoders, options.batch.size,
                                   detail::compile_ragged(options.fields),
                                   detail::BatchMixer(options, decoders).outputs());
  return layout.show(nullptr, options.batch.size);
}

}  // namespace millrace::pipeline
