// The decoders of an AudioField and of a VideoField: a part of the member, and its length.
#pragma once

#include <memory>

#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline::detail {

/// Throws: InvalidArgument; Unsupported without libsndfile.
std::unique_ptr<const FieldDecoder> compile_audio(const AudioField& field);
/// Throws: InvalidArgument; Unsupported without FFmpeg.
std::unique_ptr<const FieldDecoder> compile_video(const VideoField& field);

}  // namespace millrace::pipeline::detail
