"""All oracles, in the order in which a campaign begins with them."""

from campaign import assemblies, cams, commands, equilibria, files, invariance, linkages, motions, precision, rings

# All oracles of the campaign, in the order of its table.
ORACLES = (
    linkages.FourBar(),
    linkages.SliderCrank(),
    linkages.InvertedSliderCrank(),
    linkages.SlottedWheel(),
    linkages.SpatialFourBar(),
    rings.HingedFourBar(),
    rings.Bennett(),
    cams.FlatFollower(),
    cams.RollerFollower(),
    assemblies.RoughGuesses(),
    assemblies.JointUnknowns(),
    equilibria.OnSprings(),
    motions.Energy(),
    motions.Reversal(),
    invariance.Moved(),
    invariance.Units(),
    invariance.Neighbours(),
    motions.Formulations(),
    invariance.Batches(),
    invariance.Permuted(),
    motions.Momentum(),
    precision.Eager(),
    precision.Gradients(),
    precision.SinglePrecision(),
    files.RoundTrip(),
    files.MutilatedJson(),
    files.MutilatedMjcf(),
    files.MutilatedUrdf(),
    files.MutilatedSdf(),
    files.MutilatedAsmt(),
    files.MutilatedFreecad(),
    commands.Commands(),
)
