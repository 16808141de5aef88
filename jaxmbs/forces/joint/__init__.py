"""Forces in joints: springs, stops, friction, motors, clutches; bushings and pins with clearance in place of joints."""
