"""Networks of torchvision and timm, narrow and shallow."""

import functools

import timm
from timm.models import mlp_mixer
from timm.models.convmixer import ConvMixer
from torch import nn
from torchvision import models

from zoo_networks import CLASSES, Network, noise

# ---- BatchNorm


def group_norms(net, most):
    """Replaces every BatchNorm by a GroupNorm with its weights, of up to `most` groups of at least two channels."""
    for name, child in net.named_children():
        if isinstance(child, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            setattr(net, name, group_norm(child, most))
        else:
            group_norms(child, most)
    return net


def group_norm(batch_norm, most):
    channels = batch_norm.num_features
    groups = max(one for one in range(1, most + 1) if channels % one == 0 and (channels // one >= 2 or one == 1))
    norm = nn.GroupNorm(groups, channels, batch_norm.eps, batch_norm.affine)
    if batch_norm.affine:
        norm.weight, norm.bias = batch_norm.weight, batch_norm.bias
    if hasattr(batch_norm, "act"):
        # timm's BatchNormAct2d
        return nn.Sequential(norm, batch_norm.drop, batch_norm.act)
    return norm


# ---- torchvision


def resnet(block, layers):
    """Eight channels instead of 64 in the first layer."""
    from torchvision.models import resnet

    class Narrow(resnet.ResNet):
        def _make_layer(self, block, planes, *args, **kwargs):
            self.inplanes = 8 if planes == 64 else self.inplanes
            return super()._make_layer(block, planes // 8, *args, **kwargs)

    net = Narrow(block, layers, num_classes=CLASSES)
    net.conv1, net.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
    net.fc = nn.Linear(64 * block.expansion, CLASSES)
    return net


def efficientnet(fused):
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig

    first = FusedMBConvConfig(2, 3, 1, 8, 8, 1) if fused else MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0)
    setting = [first, MBConvConfig(2, 5, 2, 8, 16, 1, 1.0, 1.0)]
    return EfficientNet(setting, 0.1, num_classes=CLASSES, last_channel=24)


def mobilenet_v2():
    return models.mobilenet_v2(width_mult=0.1, num_classes=CLASSES)


def mobilenet_v3():
    net = models.mobilenet_v3_small(width_mult=0.25, num_classes=CLASSES)
    net.classifier = nn.Sequential(nn.Linear(net.classifier[0].in_features, 32), nn.Hardswish(), nn.Linear(32, CLASSES))
    return net


def regnet():
    from torchvision.models.regnet import BlockParams, RegNet

    params = BlockParams.from_init_params(depth=4, w_0=8, w_a=8, w_m=2, group_width=8, se_ratio=0.25)
    return RegNet(params, CLASSES, stem_width=8)


def vgg(batch_norm):
    from torchvision.models.vgg import VGG, make_layers

    net = VGG(make_layers([8, "M", 16, "M"], batch_norm=batch_norm), CLASSES)
    net.classifier = nn.Sequential(nn.Linear(16 * 49, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, CLASSES))
    return net


def inception():
    from torchvision.models import inception as file

    blocks = [file.InceptionA, file.InceptionB, file.InceptionC, file.InceptionD, file.InceptionE]
    narrow = eighth(file.BasicConv2d)
    blocks = [functools.partial(block, conv_block=narrow) for block in blocks]
    net = file.Inception3(CLASSES, False, inception_blocks=[narrow, *blocks, file.InceptionAux], init_weights=False)
    net.fc = nn.Linear(256, CLASSES)
    return net


def googlenet():
    from torchvision.models.googlenet import BasicConv2d, GoogLeNet, Inception, InceptionAux

    narrow = eighth(BasicConv2d)
    block = functools.partial(Inception, conv_block=narrow)
    net = GoogLeNet(CLASSES, False, init_weights=False, blocks=[narrow, block, InceptionAux])
    net.fc = nn.Linear(128, CLASSES)
    return net


def eighth(block):
    return lambda i, o, **options: block(i if i == 3 else i // 8, o // 8, **options)


def swin(second):
    from torchvision.models import swin_transformer as file

    options = {"block": file.SwinTransformerBlockV2, "downsample_layer": file.PatchMergingV2} if second else {}
    return file.SwinTransformer([2, 2], 8, [2, 2], [2, 2], [4, 4], num_classes=CLASSES, **options)


def alexnet():
    net = models.AlexNet(CLASSES)
    net.classifier = nn.Sequential(nn.Dropout(), nn.Linear(256 * 36, 16), nn.ReLU(), nn.Linear(16, CLASSES))
    return net


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=CLASSES, layer_scale=0.1)


def vit():
    return models.VisionTransformer(8, 4, 2, 2, 16, 32, num_classes=CLASSES)


def maxvit():
    return models.MaxVit((32, 32), 8, 2, [8, 16], [1, 1], 4, 0.0, num_classes=CLASSES)


def shufflenet():
    return models.ShuffleNetV2([2, 2, 2], [8, 16, 32, 64, 64], num_classes=CLASSES)


def densenet():
    return models.DenseNet(8, (2, 2), 8, num_classes=CLASSES)


def squeezenet():
    return models.SqueezeNet("1_1", CLASSES)


def mnasnet():
    return models.MNASNet(0.1, CLASSES)


# ---- timm


def named(name, **options):
    return lambda: timm.create_model(name, num_classes=CLASSES, **options)


def nfnet(**options):
    from timm.models.nfnet import NfCfg, NormFreeNet

    config = NfCfg(depths=(1, 1), channels=(16, 32), stem_type="3x3", stem_chs=8, num_features=32, **options)
    return lambda: NormFreeNet(config, num_classes=CLASSES)


def bit():
    from timm.layers import GroupNormAct, StdConv2d
    from timm.models.resnetv2 import ResNetV2

    norm = functools.partial(GroupNormAct, num_groups=4)
    return ResNetV2(
        [1, 1], (16, 32), num_classes=CLASSES, stem_chs=8, stem_type="fixed", norm_layer=norm, conv_layer=StdConv2d,
    )


def poolformer():
    from timm.models.metaformer import MetaFormer, Pooling

    return MetaFormer(depths=(1, 1), dims=(8, 16), num_classes=CLASSES, token_mixers=Pooling)


def mixer(block, **options):
    options = {"img_size": 16, "patch_size": 4, "num_blocks": 2, "embed_dim": 16, "block_layer": block} | options
    return lambda: mlp_mixer.MlpMixer(num_classes=CLASSES, **options)


TINY = {"embed_dim": 16, "depth": 2, "num_heads": 2}
PATCHES = {"img_size": 16, "patch_size": 4}
WINDOWS = {"img_size": 32, "window_size": 4, "embed_dim": 8, "depths": (2, 2), "num_heads": (2, 2)}
STAGES = {"img_size": 64, "embed_dim": (16, 24, 32), "key_dim": 8, "num_heads": (2, 3, 4), "depth": (1, 1, 1)}


def at(size, make, **options):
    return Network(make, {"x": noise(3, size, size)}, **options)


TORCHVISION = {
    "resnet18": at(32, lambda: resnet(models.resnet.BasicBlock, [2, 2, 2, 2])),
    "resnet50": at(32, lambda: resnet(models.resnet.Bottleneck, [1, 1, 1, 1])),
    "efficientnet": at(16, lambda: efficientnet(False)),
    "efficientnet-v2": at(16, lambda: efficientnet(True)),
    "mobilenet-v2": at(32, mobilenet_v2),
    "mobilenet-v3": at(32, mobilenet_v3),
    "regnet": at(32, regnet),
    "densenet": at(32, densenet),
    "shufflenet": at(32, shufflenet),
    "convnext": at(16, convnext),
    "vgg": at(28, lambda: vgg(True)),
    "inception": at(75, inception),
    "googlenet": at(32, googlenet),
    "squeezenet": at(32, squeezenet),
    "mnasnet": at(32, mnasnet),
    "swin": at(32, lambda: swin(False)),
    "swin-v2": at(32, lambda: swin(True)),
    "vit": at(8, vit),
    "maxvit": at(32, maxvit),
    "alexnet": at(224, alexnet),
}
TIMM = {
    "vit": at(16, named("vit_tiny_patch16_224", **PATCHES, **TINY)),
    "deit-distilled": at(16, named("deit_tiny_distilled_patch16_224", **PATCHES, **TINY)),
    "deit3": at(16, named("deit3_small_patch16_224", **PATCHES, **TINY)),
    "swin": at(32, named("swin_tiny_patch4_window7_224", **WINDOWS)),
    "swin-v2": at(32, named("swinv2_tiny_window8_256", **WINDOWS)),
    "beit": at(16, named("beit_base_patch16_224", **PATCHES, **TINY)),
    "beit-v2": at(16, named("beitv2_base_patch16_224", **PATCHES, **TINY)),
    "cait": at(16, named("cait_xxs24_224", **PATCHES, **TINY)),
    "xcit": at(32, named("xcit_nano_12_p8_224", img_size=32, patch_size=8, **TINY)),
    "levit": at(64, named("levit_128s", **STAGES)),
    "levit-conv": at(64, named("levit_conv_128s", **STAGES)),
    "maxvit": at(64, named("test_maxvit", img_size=64)),
    "coatnet": at(64, named("test_coatnet", img_size=64)),
    "eva02": at(16, named("eva02_tiny_patch14_224", img_size=16, patch_size=4, **TINY)),
    "dino-v2": at(16, named("vit_small_patch14_reg4_dinov2", img_size=16, patch_size=4, **TINY)),
    "siglip": at(16, named("vit_base_patch16_siglip_224", **PATCHES, **TINY)),
    "mixer": at(16, mixer(mlp_mixer.MixerBlock)),
    "gmlp": at(16, mixer(mlp_mixer.SpatialGatingBlock, mlp_ratio=4, mlp_layer=mlp_mixer.GatedMlp)),
    "resmlp": at(16, mixer(mlp_mixer.ResBlock, mlp_ratio=4, norm_layer=mlp_mixer.Affine)),
    "nfnet": at(32, nfnet(attn_layer="se", attn_kwargs={"rd_ratio": 0.5}, reg=False)),
    "nfnet-test": at(32, named("test_nfnet")),
    "eca-nfnet": at(32, nfnet(attn_layer="eca", attn_kwargs={}, extra_conv=True)),
    "bit": at(32, bit),
    "poolformer": at(32, poolformer),
    "mobilevit": at(64, named("mobilevit_xxs")),
    "mobilevit-v2": at(64, named("mobilevitv2_050")),
    "convmixer": at(32, lambda: ConvMixer(16, 2, 5, 4, num_classes=CLASSES)),
    "convnext-v2": at(32, named("convnextv2_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16))),
    "convnext-v2-test": at(32, named("test_convnext2")),
    "efficientnet-test": at(32, named("test_efficientnet")),
    "byobnet-test": at(32, named("test_byobnet")),
}
BATCH_NORM = {
    "resnet18": TORCHVISION["resnet18"].make, "mobilenet-v2": mobilenet_v2, "densenet": densenet,
    "efficientnet": TORCHVISION["efficientnet"].make, "shufflenet": shufflenet, "regnet": regnet,
}
NETWORKS = (
    {f"torchvision/{key}": one for key, one in TORCHVISION.items()}
    | {f"torchvision/{key}+bn": at(32, make, batch_norm=True) for key, make in BATCH_NORM.items()}
    | {f"timm/{key}": one for key, one in TIMM.items()}
)
