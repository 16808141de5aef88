"""All oracles, in the order in which a campaign begins with them."""

from campaign import cams, invariance, linkages, motions

ORACLES = (
    linkages.FourBar(),
    linkages.SliderCrank(),
    linkages.InvertedSliderCrank(),
    linkages.SlottedWheel(),
    linkages.SpatialFourBar(),
    cams.FlatFollower(),
    cams.RollerFollower(),
    motions.Energy(),
    motions.Reversal(),
    invariance.Moved(),
    invariance.Units(),
    invariance.Neighbours(),
    motions.Formulations(),
    invariance.Batches(),
    invariance.Permuted(),
    motions.Momentum(),
)
