// Loops for tokens: images whose pixels are tokens, and the rows of attention's products.
//
// Arrays, threads and results are as in kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/ops/detail/kernels.h"

namespace millrace::trainer::ops {

/// y = token + positions[0] in row 0 of each image, x + positions[row] in the others, of which x
/// has no first one; padding is left alone.
struct AddTokens {
  const void* x = nullptr;
  void* y = nullptr;
  std::span<const float> token;      ///< (C)
  std::span<const float> positions;  ///< (T, C)
};
/// `shape` is y's.
void add_tokens(Storage storage, const ImageShape& shape, const AddTokens& arguments);

struct AddTokensBackward {
  const void* dy = nullptr;
  void* dx = nullptr;  ///< null if not needed
  std::span<float> dtoken;
  std::span<float> dpositions;
};
void add_tokens_backward(Storage storage, const ImageShape& shape,
                         const AddTokensBackward& arguments);

/// Each row of a matrix.
struct RowsOf {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Which columns a row of attention's scores sees: its own and those before it if `causal`; of the
/// last `masked` only those whose value is not 0, of `stride` values for each `rows` rows.
struct SeenColumns {
  bool causal = false;
  const float* mask = nullptr;
  std::int64_t masked = 0;
  std::int64_t stride = 0;
  std::int64_t rows = 1;
};

/// y = softmax(scale * x) along the columns that are seen, and 0 in the others; x, float32, is
/// overwritten, and may be y's memory where that is float32. Requires: a column is seen.
struct ScaledSoftmax {
  float* x = nullptr;
  void* y = nullptr;
  float scale = 1;
  SeenColumns seen = {};
};
void scaled_softmax(Storage storage, const RowsOf& shape, const ScaledSoftmax& arguments);

/// dx = scale * y * (dy - sum(dy * y)); dx may be dy's memory where it is float32.
struct ScaledSoftmaxBackward {
  const void* y = nullptr;
  const float* dy = nullptr;
  void* dx = nullptr;
  float scale = 1;
};
void scaled_softmax_backward(Storage storage, const RowsOf& shape,
                             const ScaledSoftmaxBackward& arguments);

/// Channels [first, first + heads * size) of an image, head by head: (N, heads, T, size).
struct HeadCopy {
  ImageShape image;
  std::int64_t first = 0;
  std::int64_t heads = 1;
  std::int64_t size = 1;
  std::size_t value_bytes = sizeof(float);
};
void copy_heads_from(const HeadCopy& copy, const void* image, void* heads);
void copy_heads_to(const HeadCopy& copy, const void* heads, void* image);

/// One row of each image, and the features (N, C) that it holds.
struct RowCopyOf {
  ImageShape image;
  std::int64_t row = 0;
  std::size_t value_bytes = sizeof(float);
};
void copy_row_from(const RowCopyOf& copy, const void* image, void* features);
void copy_row_to(const RowCopyOf& copy, const void* features, void* image);

}  // namespace millrace::trainer::ops
