#include "decode/gunzip.h"

#include "decode/detail/inflate.h"

namespace millrace::decode {

io::Bytes gunzip(const io::Bytes& packed, const Limits& limits) {
  return io::Bytes::take(detail::inflate_all(packed.span(), detail::Packing::kGzip, limits));
}

}  // namespace millrace::decode
