// A transform of one's own, from text and as a struct, beside the standard ones.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "millrace/decode/encode.h"
#include "millrace/decode/image_decoder.h"
#include "millrace/decode/transforms.h"
#include "millrace/decode/transforms/center_crop.h"
#include "millrace/io/component/component_text.h"

namespace mr = millrace;

struct Speckle {
  double share = 0.01;

  static const mr::ComponentName kName;
  void fields(mr::FieldList& field) {
    field("share", share, {.min = 0, .max = 1}, "Share of the levels that become white");
  }
  std::unique_ptr<mr::decode::TransformStep> make() const;
};
const mr::ComponentName Speckle::kName = {"speckle", "Speckle", "White specks"};

class SpeckleStep final : public mr::decode::PixelStep {
 public:
  explicit SpeckleStep(double share) : share_(share) {}
  void change(mr::decode::Pixels& pixels, mr::KeyedRng& rng) const override {
    for (std::uint8_t& level : pixels.levels)
      if (static_cast<double>(rng.uniform()) < share_) level = 255;
  }

 private:
  double share_;
};
std::unique_ptr<mr::decode::TransformStep> Speckle::make() const {
  return std::make_unique<SpeckleStep>(share);
}

std::vector<std::uint8_t> seen(const std::vector<mr::decode::Transform>& transforms,
                               const mr::io::Bytes& file) {
  const mr::decode::ImageDecoder decoder(
      {.transforms = transforms, .channels = 1, .dtype = mr::decode::DType::kUInt8});
  std::vector<std::uint8_t> pixels(decoder.output().num_bytes());
  decoder.decode(file, {.seed = 1}, std::as_writable_bytes(std::span(pixels)));
  return pixels;
}

int main() {
  mr::decode::TransformTable table = mr::decode::standard_transforms();
  table.add<Speckle>();
  const mr::decode::Image black{.height = 80,
                                .width = 80,
                                .channels = 1,
                                .pixels = mr::io::Bytes::copy_of(std::string(80 * 80, '\0'))};
  const auto file = mr::decode::encode_pnm(black);
  const auto pixels = seen(mr::parse("ccrop(64), speckle(0.1)", table), file);
  int white = 0;
  for (const std::uint8_t level : pixels) white += level == 255 ? 1 : 0;
  const bool same =
      pixels == seen({mr::decode::CenterCrop{.size = 64}, Speckle{.share = 0.1}}, file);
  std::printf("own transform: %d of 4096 white\n%s", white,
              mr::help(mr::value_type(Speckle())).c_str());
  return same && white > 350 && white < 470 ? 0 : 1;
}
