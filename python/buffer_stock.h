// BufferStock: objects of Python whose memory a pipeline decodes into, such as pinned tensors.
//
// The loop's thread keeps the stock full and the pipeline's threads take from it, so that they need
// no GIL. A buffer that was handed out is never taken again: copies of it to a device may go on
// when its last view is gone, and its own allocator knows how long.
//
//   BufferStock stock(allocate);                 // a Python function of a number of bytes
//   if (stock.open(pipeline::batch_buffers(options))) options.resources.allocate = stock.taker();
//   stock.fill();                                // before each next()
//   nb::object buffer = stock.hand_out(batch);
//
// Threads: with the GIL, from one at a time; what taker() returns, from any, without it. Buffers:
// as many as the pipeline needs, and those handed out until their batch is gone.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "pipeline/pipeline.h"

namespace millrace::python {

class BufferStock {
 public:
  /// `allocate(num_bytes)` returns an object that has data_ptr(), or None.
  explicit BufferStock(nanobind::object allocate);
  ~BufferStock();
  BufferStock(const BufferStock&) = delete;
  BufferStock& operator=(const BufferStock&) = delete;

  /// Fills the stock for a pipeline that starts. False if `allocate` returns None: the pipeline is
  /// to use memory of its own. Throws: what `allocate` throws; InvalidArgument if it returns the
  /// same memory twice.
  bool open(const pipeline::BatchBuffers& need);
  /// Replaces what was handed out, unless `allocate` returned None. Throws: as open().
  void fill();
  /// For ResourceOptions::allocate; it may outlive this.
  pipeline::AllocateBuffer taker() const;
  /// The object that `batch` lies in; None if it is in none of this stock.
  nanobind::object hand_out(const pipeline::Batch& batch);
  /// Lets go of the buffers of batches that are gone.
  void drain();
  /// Lets go of all, now or when their batches are gone.
  void close();

 private:
  struct Kept;

  void add(nanobind::object buffer);

  nanobind::object allocate_;
  pipeline::BatchBuffers need_ = {};  ///< none while it is not open
  std::shared_ptr<Kept> kept_;        ///< shared with the buffers
};

}  // namespace millrace::python
