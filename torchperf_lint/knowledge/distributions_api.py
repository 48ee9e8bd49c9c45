"""The classes of `torch.distributions`, whose parameters are checked on the host, and how to disable that."""

from __future__ import annotations

VALIDATE_POSITIONS = {
    "bernoulli.Bernoulli": 2,
    "beta.Beta": 2,
    "binomial.Binomial": 3,
    "categorical.Categorical": 2,
    "cauchy.Cauchy": 2,
    "chi2.Chi2": 1,
    "continuous_bernoulli.ContinuousBernoulli": 3,
    "dirichlet.Dirichlet": 1,
    "exponential.Exponential": 1,
    "fishersnedecor.FisherSnedecor": 2,
    "gamma.Gamma": 2,
    "generalized_pareto.GeneralizedPareto": 3,
    "geometric.Geometric": 2,
    "gumbel.Gumbel": 2,
    "half_cauchy.HalfCauchy": 1,
    "half_normal.HalfNormal": 1,
    "inverse_gamma.InverseGamma": 2,
    "kumaraswamy.Kumaraswamy": 2,
    "laplace.Laplace": 2,
    "log_normal.LogNormal": 2,
    "logistic_normal.LogisticNormal": 2,
    "lowrank_multivariate_normal.LowRankMultivariateNormal": 3,
    "multinomial.Multinomial": 3,
    "multivariate_normal.MultivariateNormal": 4,
    "negative_binomial.NegativeBinomial": 3,
    "normal.Normal": 2,
    "one_hot_categorical.OneHotCategorical": 2,
    "one_hot_categorical.OneHotCategoricalStraightThrough": 2,
    "pareto.Pareto": 2,
    "poisson.Poisson": 1,
    "relaxed_bernoulli.RelaxedBernoulli": 3,
    "relaxed_categorical.RelaxedOneHotCategorical": 3,
    "studentT.StudentT": 3,
    "uniform.Uniform": 2,
    "von_mises.VonMises": 2,
    "weibull.Weibull": 2,
}
"""Classes whose constructor reads the result of each parameter's check: the 0-based position of `validate_args`."""

CHECKED = {
    ref: position
    for path, position in VALIDATE_POSITIONS.items()
    for ref in (f"torch.distributions.{path}", f"torch.distributions.{path.rpartition('.')[2]}")
}
"""The same by all qualified names."""

SWITCHES_ALL = ("set_default_validate_args", "enable_validation")
"""Functions that enable or disable the checks of a whole program: torch's, and Pyro's, which calls it."""
