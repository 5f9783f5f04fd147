# Written by python/components_stub.py. A program that has more components has them at run time.
from collections.abc import Mapping, Sequence
from typing import Literal

from millrace._calls import Component as Component

class SGD(Component):
    """Steps along the gradient, with momentum."""

    def __init__(self, lr: float | None = None, momentum: float = 0.9, *, dampening: float = 0, nesterov: bool = False, weight_decay: float = 0, groups: Sequence[Mapping[str, object]] = ()) -> None: ...

class Adam(Component):
    """Steps of a size for each weight."""

    def __init__(self, lr: float | None = None, *, betas: float | Sequence[float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0, groups: Sequence[Mapping[str, object]] = ()) -> None: ...

class AdamW(Component):
    """Adam with decay of the weights themselves."""

    def __init__(self, lr: float | None = None, *, betas: float | Sequence[float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0.01, groups: Sequence[Mapping[str, object]] = ()) -> None: ...

class Lion(Component):
    """Steps of one size, by the sign of a mean."""

    def __init__(self, lr: float | None = None, *, betas: float | Sequence[float] = (0.9, 0.99), weight_decay: float = 0, groups: Sequence[Mapping[str, object]] = ()) -> None: ...

class LARS(Component):
    """SGD with a rate for each layer, by its norms."""

    def __init__(self, lr: float | None = None, momentum: float = 0.9, *, trust: float = 0.001, weight_decay: float = 0, groups: Sequence[Mapping[str, object]] = ()) -> None: ...

class LAMB(Component):
    """AdamW with a rate for each layer, by its norms."""

    def __init__(self, lr: float | None = None, *, betas: float | Sequence[float] = (0.9, 0.999), eps: float = 1e-06, weight_decay: float = 0.01, groups: Sequence[Mapping[str, object]] = ()) -> None: ...

class Muon(Component):
    """Orthogonalised momentum for matrices, SGD for the rest."""

    def __init__(self, lr: float | None = None, *, momentum: float = 0.95, nesterov: bool = True, steps: int = 5, coefficients: float | Sequence[float] = (3.4445, -4.775, 2.0315), normalise: bool = False, matrices: Sequence[str] = (), sgd_lr: float | None = None, sgd_momentum: float = 0.9, weight_decay: float = 0, groups: Sequence[Mapping[str, object]] = ()) -> None: ...

class Constant(Component):
    """The same rate throughout."""

    def __init__(self, *, warmup: str | None = None, warmup_start: float = 0, by: Literal['epoch', 'step'] = 'epoch', after_warmup: bool = False) -> None: ...

class Step(Component):
    """Falls by a factor every so many epochs."""

    def __init__(self, every: int = 30, gamma: float = 0.1, *, warmup: str | None = None, warmup_start: float = 0, by: Literal['epoch', 'step'] = 'epoch', after_warmup: bool = False) -> None: ...

class MultiStep(Component):
    """Falls by a factor at given epochs."""

    def __init__(self, milestones: float | Sequence[float] = (), gamma: float = 0.1, *, warmup: str | None = None, warmup_start: float = 0, by: Literal['epoch', 'step'] = 'epoch', after_warmup: bool = False) -> None: ...

class Exponential(Component):
    """Falls by a factor with each epoch."""

    def __init__(self, gamma: float = 0.1, *, warmup: str | None = None, warmup_start: float = 0, by: Literal['epoch', 'step'] = 'epoch', after_warmup: bool = False) -> None: ...

class Cosine(Component):
    """Falls along half a cosine."""

    def __init__(self, to: float = 0, *, warmup: str | None = None, warmup_start: float = 0, by: Literal['epoch', 'step'] = 'epoch', after_warmup: bool = False) -> None: ...

class Linear(Component):
    """Falls along a line."""

    def __init__(self, to: float = 0, *, warmup: str | None = None, warmup_start: float = 0, by: Literal['epoch', 'step'] = 'epoch', after_warmup: bool = False) -> None: ...

class OneCycle(Component):
    """Rises and falls once, along cosines."""

    def __init__(self, rise: float = 0.3, *, start_div: float = 25, end_div: float = 10000, by: Literal['epoch', 'step'] = 'step') -> None: ...

class Shuffled(Component):
    """Shards shuffled, and their samples through a buffer of each stream."""

    def __init__(self, buffer: int = 5000, open_shards: int = 1) -> None: ...

class WebDatasetOrder(Component):
    """WebDataset 1.0.2's order, bit for bit."""

    def __init__(self, buffer: int = 5000, initial: int = 100, shard_shuffle: int = 100, detshuffle: bool = False) -> None: ...

class Permutation(Component):
    """An exact permutation of all samples, each read by its place."""

    def __init__(self, *, buffer: int = 5000, where: str = '', balance: str = '', weight: str = '', copies: int = 1) -> None: ...

class Fail(Component):
    """The run ends."""

    def __init__(self) -> None: ...

class Skip(Component):
    """The sample is left out."""

    def __init__(self, max: int | float | None = None) -> None: ...

class Stop(Component):
    """The shards end there."""

    def __init__(self, max: int | float | None = None) -> None: ...

class Airbench94(Component):
    """Small network that learns CIFAR-10 in few epochs."""

    def __init__(self, channels: int | Sequence[int] = (64, 256, 256), *, whitening_samples: int = 0) -> None: ...

class AlexNet(Component):
    """AlexNet in its one-tower form."""

    def __init__(self, dropout: float = 0.5) -> None: ...

class ConvNeXtTiny(Component):
    """ConvNeXt-T: 7x7 depthwise convolutions, layer norm."""

    def __init__(self, stochastic_depth: float = 0.1) -> None: ...

class EfficientNetB0(Component):
    """EfficientNet-B0: depthwise convolutions, gated channels."""

    def __init__(self, dropout: float = 0.2, stochastic_depth: float = 0.2) -> None: ...

class LeNet(Component):
    """LeNet-5 with ReLU, for grey images."""

    def __init__(self) -> None: ...

class MobileNetV3Large(Component):
    """MobileNetV3, the larger one."""

    def __init__(self, dropout: float = 0.2) -> None: ...

class MobileNetV3Small(Component):
    """MobileNetV3, the smaller one."""

    def __init__(self, dropout: float = 0.2) -> None: ...

class ResNet18(Component):
    """Residual network of 18 layers."""

    def __init__(self, stem: Literal['imagenet', '3x3', '7x7', 'cifar'] = 'imagenet', stochastic_depth: float = 0, zero_init_residual: bool = False) -> None: ...

class ResNet34(Component):
    """Residual network of 34 layers."""

    def __init__(self, stem: Literal['imagenet', '3x3', '7x7', 'cifar'] = 'imagenet', stochastic_depth: float = 0, zero_init_residual: bool = False) -> None: ...

class ResNet50(Component):
    """Residual network of 50 layers, with bottlenecks."""

    def __init__(self, stem: Literal['imagenet', '3x3', '7x7', 'cifar'] = 'imagenet', stochastic_depth: float = 0, zero_init_residual: bool = False) -> None: ...

class ResNeXt50(Component):
    """ResNet-50 with 3x3 convolutions of 32 groups."""

    def __init__(self, stem: Literal['imagenet', '3x3', '7x7', 'cifar'] = 'imagenet', stochastic_depth: float = 0, zero_init_residual: bool = False) -> None: ...

class WideResNet50(Component):
    """ResNet-50 with 3x3 convolutions twice as wide."""

    def __init__(self, stem: Literal['imagenet', '3x3', '7x7', 'cifar'] = 'imagenet', stochastic_depth: float = 0, zero_init_residual: bool = False) -> None: ...

class UNet(Component):
    """U-Net on a ResNet-34 encoder, for masks and depths; sides in steps of 32 px."""

    def __init__(self, width: int = 64) -> None: ...

class VitB16(Component):
    """ViT-B/16: transformer of 16 x 16 patches, 768 features."""

    def __init__(self, patch: int = 16, width: int = 768, depth: int = 12, heads: int = 12, dropout: float = 0, stochastic_depth: float = 0) -> None: ...

class VitS16(Component):
    """ViT-S/16: transformer of 16 x 16 patches, 384 features."""

    def __init__(self, patch: int = 16, width: int = 384, depth: int = 12, heads: int = 6, dropout: float = 0, stochastic_depth: float = 0) -> None: ...

class Classify(Component):
    """A class per image."""

    def __init__(self, label_smoothing: float = 0, loss: Literal['ce', 'bce', 'cross-entropy'] = 'ce', threshold: float | None = None, sum_classes: bool = False) -> None: ...

class Multilabel(Component):
    """Several labels per image."""

    def __init__(self, label_key: str = 'labels') -> None: ...

class Mask(Component):
    """Which pixels are set; iou is the mean of set and unset ones."""

    def __init__(self, mask_loss: Component | str = ..., mask_value: int = 1, mask_field: str = 'mask.png') -> None: ...

class Depth(Component):
    """A depth per pixel."""

    def __init__(self, depth_loss: Component | str = ..., depth_field: str = 'depth.png', depth_one: int = 0, depth_none: int = -1) -> None: ...

class MaskDepth(Component):
    """Mask and depth."""

    def __init__(self, mask_loss: Component | str = ..., mask_value: int = 1, mask_field: str = 'mask.png', depth_loss: Component | str = ..., depth_field: str = 'depth.png', depth_one: int = 0, depth_none: int = -1, loss_weights: float | Sequence[float] = (1, 1)) -> None: ...

class Segment(Component):
    """A class per pixel."""

    def __init__(self, mask_loss: Literal['ce', 'ce+dice', 'cross-entropy'] = 'ce', label_smoothing: float = 0, ignore_index: int = 255, class_weights: float | Sequence[float] = (), colors: str = '', mask_field: str = 'mask.png') -> None: ...

class SegmentDepth(Component):
    """A class and a depth per pixel."""

    def __init__(self, mask_loss: Literal['ce', 'ce+dice', 'cross-entropy'] = 'ce', label_smoothing: float = 0, ignore_index: int = 255, class_weights: float | Sequence[float] = (), colors: str = '', mask_field: str = 'mask.png', depth_loss: Component | str = ..., depth_field: str = 'depth.png', depth_one: int = 0, depth_none: int = -1, loss_weights: float | Sequence[float] = (1, 1)) -> None: ...

class Contrast(Component):
    """Embeddings, alike for views of the same sample."""

    def __init__(self, features: int = 128, temperature: float = 0.1, learned: bool = False) -> None: ...

class ClipTask(Component):
    """Embeddings of pictures and their captions, alike for a pair."""

    def __init__(self, features: int = 128, temperature: float = 0.07, learned: bool = True, text_field: str = 'txt', text_key: str = '', text_length: int = 64, text_width: int = 256, text_depth: int = 4, text_heads: int = 4, text_mask: bool = True, text_pool: Literal['class', 'end'] = 'class', text_causal: bool = False, tokenizer: str = '', text_begin: int | None = None, text_end: int | None = None) -> None: ...

class CrossEntropy(Component):
    """Cross-entropy of the softmax; a class per sample."""

    def __init__(self, label_smoothing: float = 0) -> None: ...

class ClassBce(Component):
    """Binary cross-entropy of each class; a class per sample."""

    def __init__(self, label_smoothing: float = 0, threshold: float | None = None, sum_classes: bool = False) -> None: ...

class PixelCrossEntropy(Component):
    """Cross-entropy of every pixel, and Dice beside it; a class per pixel."""

    def __init__(self, label_smoothing: float = 0, ignore_index: int = 255, class_weights: float | Sequence[float] = (), dice: float = 0) -> None: ...

class Bce(Component):
    """Binary cross-entropy of logits."""

    def __init__(self) -> None: ...

class Dice(Component):
    """1 - Dice of logits, over a sample's values."""

    def __init__(self) -> None: ...

class BceDice(Component):
    """BCE and Dice of logits, added."""

    def __init__(self, bce: float = 1, dice: float = 1) -> None: ...

class Tversky(Component):
    """As Dice, with weights of what is wrongly set or missed."""

    def __init__(self, alpha: float = 0.3, beta: float = 0.7) -> None: ...

class L1(Component):
    """Mean absolute error."""

    def __init__(self) -> None: ...

class Mse(Component):
    """Mean squared error."""

    def __init__(self) -> None: ...

class Rmse(Component):
    """Root of the mean squared error of a sample."""

    def __init__(self) -> None: ...

class BerHu(Component):
    """Absolute error, squared beyond a fifth of the largest."""

    def __init__(self) -> None: ...

class Gradient(Component):
    """Mean difference of neighbours' errors, in rows and columns."""

    def __init__(self) -> None: ...

class Ssim(Component):
    """1 - structural similarity of images."""

    def __init__(self, window: int = 11, range: float = 1) -> None: ...

class InfoNce(Component):
    """Which of a step's embeddings are of the same sample, over all devices."""

    def __init__(self, temperature: float = 0.1, learned: bool = False) -> None: ...

class Clip(Component):
    """Which embedding of one tower is of the same sample as one of the other's."""

    def __init__(self, temperature: float = 0.07, learned: bool = False) -> None: ...
